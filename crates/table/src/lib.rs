//! Tables of a whylat recording: each declared once ([`tables`]), kept in typed columns while
//! they are filled ([`declare`]), and stored as sealed Parquet segments in a directory that
//! survives a kill ([`write`], [`read`]).

mod check;
mod connection;
mod decode;
mod delta;
mod encode;
mod error;
mod expand;
mod feed;
mod files;
mod fixture;
mod fold;
mod inherit;
mod journal;
mod merge;
mod pages;
mod recover;
mod reference;
mod rows;
mod segment;
mod shape;

pub mod clock;
pub mod dataset;
pub mod declare;
pub mod fleet;
pub mod manifest;
pub mod names;
pub mod progress;
pub mod read;
pub mod spans;
pub mod tables;
pub mod write;

pub use check::validate;
pub use declare::{Columns, Field, ShapeError, Table, Value};
pub use encode::Between;
pub use error::{FixtureError, Problem, ReadError, RowError, WriteError};
pub use feed::{Rows, TableConsumer, TableId};
pub use fixture::{row_of, rows_from_jsonl, rows_to_jsonl, write_fixture};
pub use fold::fold_connections;
pub use inherit::text_files;
pub use names::{
    ActivityKind, ActivitySource, Caller, Chosen, CounterKind, DropKind, Method, Role, SampleKind,
    Stage, TaskKind, TcpEventKind, ValueSource, WaitObject, Waker, Why, WorkloadKind,
    WorkloadSource, ZerocopyInterface,
};
pub use read::{Recording, recording_time};
pub use recover::{RecoveryResult, recover_recording};
pub use reference::{fleet_reference, reference};
pub use rows::RowSet;
pub use write::{ClosedRecording, WriteOptions, Writer};
