//! The reference page of all tables, made from their declarations: `docs/tables.md`.

use std::fmt::Write;

use crate::declare::Cell;
use crate::fleet::FLEET_SCHEMA;
use crate::manifest::FORMAT;
use crate::names::{
    Chosen, CounterKind, Role, SampleKind, TaskKind, TcpEventKind, ValueSource, WorkloadKind,
    WorkloadSource, ZerocopyInterface,
};
use crate::{Columns, Field, Table, for_each_fleet_table, for_each_table};

/// The Markdown text of the page of the tables that agents write.
pub fn fleet_reference() -> String {
    let mut page = format!(
        "# Tables of a fleet\n\n\
         <!-- Generated: cargo run --release -p whylat-table --example reference -- fleet > docs/fleet/tables.md -->\n\n\
         What agents write ({FLEET_SCHEMA}); where the files lie: [dataset.md](dataset.md). All times are nanoseconds\n\
         since 1970-01-01 UTC of the host's own clock. A null means \"not measured\" or \"does not apply\", as the field\n\
         says; it never means zero.\n"
    );
    macro_rules! sections {
        ($($row:ty),+ $(,)?) => {
            $(section::<$row>(&mut page);)+
        };
    }
    for_each_fleet_table!(sections);
    page
}

/// The Markdown text of the page of a recording's tables.
pub fn reference() -> String {
    let mut page = format!(
        "# Tables of a recording\n\n\
         <!-- Generated: cargo run --release -p whylat-table --example reference > docs/tables.md -->\n\n\
         A recording is a directory `NAME.whylat/`. Its `manifest.jsonl` lists, line by line, what was\n\
         recorded and how (format {FORMAT}); each table is a folder of Parquet files, one file once the\n\
         recording is closed. All times are `CLOCK_MONOTONIC` nanoseconds of the recorded host. A null\n\
         means \"not measured\" or \"does not apply\", as the field says; it never means zero.\n\n\
         Lines `sockets` of the manifest say which sockets recorded processes had, one line a `kind`: `tcp`,\n\
         `mptcp`, `udp`, `unix`, `smc`, `sctp`, `raw`, `packet`, `netlink`, `vsock`, `other`. A line has the largest\n\
         number that was `open` at one time, and how many `sends` and `receives` moved `sent_bytes` and\n\
         `received_bytes`. Calls on TCP sockets are not counted there: they are rows of `calls`. [sockets.md](sockets.md) says more.\n"
    );
    macro_rules! sections {
        ($($row:ty),+ $(,)?) => {
            $(section::<$row>(&mut page);)+
        };
    }
    for_each_table!(sections);
    page.push_str("\n## Values\n");
    values(
        "processes.workload_kind",
        WorkloadKind::ALL,
        WorkloadKind::name,
        WorkloadKind::doc,
        &mut page,
    );
    values(
        "processes.workload_source",
        WorkloadSource::ALL,
        WorkloadSource::name,
        WorkloadSource::doc,
        &mut page,
    );
    values(
        "connections.role",
        Role::ALL,
        Role::name,
        Role::doc,
        &mut page,
    );
    values(
        "connections.chosen",
        Chosen::ALL,
        Chosen::name,
        Chosen::doc,
        &mut page,
    );
    values(
        "tcp_samples.kind",
        SampleKind::ALL,
        SampleKind::name,
        SampleKind::doc,
        &mut page,
    );
    values(
        "tcp_events.kind",
        TcpEventKind::ALL,
        TcpEventKind::name,
        TcpEventKind::doc,
        &mut page,
    );
    values(
        "zerocopy_sends.interface",
        ZerocopyInterface::ALL,
        ZerocopyInterface::name,
        ZerocopyInterface::doc,
        &mut page,
    );
    values(
        "counters.source, tasks.source",
        ValueSource::ALL,
        ValueSource::name,
        ValueSource::doc,
        &mut page,
    );
    values(
        "counters.kind",
        CounterKind::ALL,
        CounterKind::name,
        CounterKind::doc,
        &mut page,
    );
    values(
        "tasks.kind",
        TaskKind::ALL,
        TaskKind::name,
        TaskKind::doc,
        &mut page,
    );
    page
}

/// Writes the section of one table.
fn section<T: Table>(page: &mut String) {
    let _ = write!(
        page,
        "\n## {}\n\n{}\n\n| field | type | unit | meaning | null |\n|---|---|---|---|---|\n",
        T::NAME,
        paragraph(T::DOC)
    );
    let schema = T::Columns::schema();
    for (field, column) in T::FIELDS.iter().zip(schema.fields()) {
        let Field {
            name,
            doc,
            unit,
            null,
        } = field;
        let _ = writeln!(
            page,
            "| `{name}` | {} | {unit} | {} | {} |",
            column.data_type().to_string().to_lowercase(),
            cell(doc),
            if null.is_empty() { "never" } else { null }
        );
    }
}

/// Writes the section of a text column: each possible name with its meaning.
fn values<T: Copy + Cell>(
    column: &str,
    all: &[T],
    name: fn(T) -> &'static str,
    doc: fn(T) -> &'static str,
    page: &mut String,
) {
    let _ = write!(page, "\n### `{column}`\n\n| value | meaning |\n|---|---|\n");
    for &value in all {
        let _ = writeln!(page, "| `{}` | {} |", name(value), cell(doc(value)));
    }
}

/// Returns doc lines as flowing text.
fn paragraph(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns doc lines as a table cell.
fn cell(doc: &str) -> String {
    paragraph(doc).replace('|', "\\|")
}
