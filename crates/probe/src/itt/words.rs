//! How what the program reported is written in columns.

use ::itt::{Identifier, Scope, Value};
use table::CounterKind;

/// Returns which way a counter went.
pub(crate) fn counter_kind(is_decrement: bool) -> CounterKind {
    if is_decrement {
        CounterKind::Decrement
    } else {
        CounterKind::Increment
    }
}

/// Returns the value in the column that keeps it exactly: unsigned, signed or real.
pub(crate) fn split(value: Value) -> (Option<u64>, Option<i64>, Option<f64>) {
    match value {
        Value::U64(value) => (Some(value), None, None),
        Value::U32(value) => (Some(value.into()), None, None),
        Value::U16(value) => (Some(value.into()), None, None),
        Value::S64(value) => (None, Some(value), None),
        Value::S32(value) => (None, Some(value.into()), None),
        Value::S16(value) => (None, Some(value.into()), None),
        Value::F32(value) => (None, None, Some(value.into())),
        Value::F64(value) => (None, None, Some(value)),
    }
}

/// Returns an `__itt_id` as text: its three words, hexadecimal.
pub(crate) fn id_text(Identifier([one, two, three]): Identifier) -> String {
    format!("{one:x}:{two:x}:{three:x}")
}

/// Returns the name of an `__itt_scope`.
pub(crate) fn scope_name(scope: Scope) -> Option<&'static str> {
    Some(match scope {
        Scope::Unknown => return None,
        Scope::Global => "global",
        Scope::Process => "process",
        Scope::Thread => "thread",
        Scope::Task => "task",
        Scope::Marker => "marker",
    })
}

/// Returns the name of an `__itt_relation`.
pub(crate) fn relation_name(relation: u8) -> Option<&'static str> {
    const NAMES: [&str; 7] = [
        "dependent_on",
        "sibling_of",
        "parent_of",
        "continuation_of",
        "child_of",
        "continued_by",
        "predecessor_to",
    ];
    NAMES.get(usize::from(relation).checked_sub(1)?).copied()
}
