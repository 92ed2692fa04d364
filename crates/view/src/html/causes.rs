//! The CPU spans that explain slow messages, for a browser: a row
//! for each span of a message.

use std::collections::HashMap;

use diagnose::tail::SpanId;
use diagnose::tail::report::TailReport;
use table::Field;
use table::tables::Activities;

use super::column::{CellKind, ColumnCells, DerivedColumn};

/// Name of the table, and description of a row.
pub const NAME: &str = "cause_spans";
pub const DOC: &str =
    "A span of a CPU that explains why a message took longer, as `whylat report --tail` finds it.";

const MESSAGE: Field = Field {
    name: "message",
    doc: "Id of the message.",
    unit: "-",
    null: "",
};
const SPAN: Field = Field {
    name: "span",
    doc: "Row of the span in the page's table `activity`.",
    unit: "",
    null: "",
};
const CAUSE: Field = Field {
    name: "cause",
    doc: "Index of the cause in the causes of the message's application.",
    unit: "",
    null: "",
};
const ANOMALY: Field = Field {
    name: "anomaly",
    doc: "How it differs from those of ordinary messages: `unexpected`, `more_often` or `slower`.",
    unit: "-",
    null: "",
};

/// Returns the columns on causes: which slow messages a span explains. `rows`: the spans of the
/// page.
pub fn columns(
    tail: Option<&TailReport>,
    spans: &Activities,
    rows: &[usize],
) -> Vec<DerivedColumn> {
    let groups = tail.map_or(&[][..], |tail| &tail.groups);
    let messages = groups.iter().flat_map(|group| &group.explained);
    let all = messages.flat_map(|it| it.spans.iter().map(|span| (&it.id, span)));
    let mut places: HashMap<SpanId, Option<usize>> =
        all.clone().map(|(_, it)| (it.span, None)).collect();
    for (place, row) in rows.iter().enumerate() {
        let Some(cpu) = spans.cpu[*row] else { continue };
        let id = SpanId {
            cpu,
            begin_ns: spans.begin_ns[*row],
            depth: spans.depth[*row],
        };
        if let Some(known) = places.get_mut(&id) {
            *known = Some(place);
        }
    }
    let (mut ids, mut numbers, mut causes, mut anomalies) = (vec![], vec![], vec![], vec![]);
    for (id, span) in all {
        // one that the page does not hold is not drawn either
        if let Some(place) = places.get(&span.span).copied().flatten() {
            ids.push(Some(id.clone()));
            numbers.push(i64::try_from(place).ok());
            causes.push(i64::try_from(span.cause).ok());
            anomalies.push(Some(span.anomaly.name().to_owned()));
        }
    }
    vec![
        (&MESSAGE, CellKind::Word, ColumnCells::Word(ids)),
        (&SPAN, CellKind::Number, ColumnCells::Whole(numbers)),
        (&CAUSE, CellKind::Number, ColumnCells::Whole(causes)),
        (&ANOMALY, CellKind::Word, ColumnCells::Word(anomalies)),
    ]
}
