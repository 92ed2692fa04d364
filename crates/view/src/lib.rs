//! A diagnosis, waits in groups, or messages, as text or JSON; all of them with the rows that they come from as one
//! HTML file ([`html`]). Comes in: a [`diagnose::Report`], a [`diagnose::waits::WaitReport`] or a
//! [`diagnose::messages::report::MessageReport`]; goes out: a string. The screen of a live view is drawn
//! in [`top`]. Computes nothing new: every number is in the
//! report, here it only gets its unit and its place.

pub mod check;
mod clean;
mod compare;
mod csv;
mod drop_csv;
pub mod html;
mod json;
mod layout;
mod perfetto;
mod request_csv;
mod row_selection;
mod span_name;
mod text;
pub mod top;

pub use clean::remove_controls;
pub use compare::{ComparedSide, side_by_side};
pub use csv::{CsvText, write_csv};
pub use drop_csv::drop_csv;
pub use json::{json, write_json};
pub use layout::{MOST_COLUMNS, TextOptions, wrap};
pub use perfetto::write_trace;
pub use request_csv::RequestCsv;
pub use row_selection::{
    CellTest, Operand, RowCondition, RowSelection, SelectedRows, TableDeclaration,
    find_declaration, selected_csv,
};
pub use text::{
    diff as diff_text, drops as drops_text, ends as ends_text, message as message_text,
    messages as messages_text, request as request_text, requests as requests_text,
    tail as tail_text, text, waits as waits_text,
};
