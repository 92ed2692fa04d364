//! Describes what is attached to a span, as JSON text.

use ::itt::Value;
use serde_json::{Number, json};

/// More than this is not gathered in one row: a row of its own follows.
const MOST_BYTES: usize = 64 << 10;

/// A JSON list that grows.
#[derive(Debug, Default)]
pub(crate) struct Notes(String);

impl Notes {
    /// Creates notes with one entry.
    pub(crate) fn from_entry(entry: &serde_json::Value) -> Self {
        let mut notes = Self::default();
        notes.add(entry);
        notes
    }

    /// Returns whether the notes have no room for another entry.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= MOST_BYTES
    }

    /// Adds an entry to the notes.
    pub(crate) fn add(&mut self, entry: &serde_json::Value) {
        self.0.push(if self.0.is_empty() { '[' } else { ',' });
        self.0.push_str(&entry.to_string());
    }

    /// Returns the notes as text; `None` without entries.
    pub(crate) fn text(self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0 + "]")
    }
}

/// Makes an entry of numbers under a key; `count`: how many there were, if some are missing.
pub(crate) fn number_note(key: Option<String>, values: &[Value], count: u64) -> serde_json::Value {
    let mut entry = json!({ "key": key, "values": value_list(values) });
    if count != values.len() as u64 {
        entry["count"] = json!(count);
    }
    entry
}

/// Makes an entry of text under a key; `length_bytes`: its length, if some is missing.
pub(crate) fn text(key: Option<String>, text: &str, length_bytes: u64) -> serde_json::Value {
    let mut entry = json!({ "key": key, "text": text });
    if length_bytes != text.len() as u64 {
        entry["length_bytes"] = json!(length_bytes);
    }
    entry
}

/// Makes an entry of a histogram's points.
pub(crate) fn point_note(first: u64, x: &[Value], y: &[Value]) -> serde_json::Value {
    let mut entry = json!({ "first": first, "y": value_list(y) });
    if !x.is_empty() {
        entry["x"] = value_list(x);
    }
    entry
}

/// Returns the values as a JSON list.
fn value_list(values: &[Value]) -> serde_json::Value {
    values.iter().map(|value| number(*value)).collect()
}

/// Returns a value as a JSON number; a text if JSON has no such number.
fn number(value: Value) -> serde_json::Value {
    match value {
        Value::U64(value) => value.into(),
        Value::U32(value) => value.into(),
        Value::U16(value) => value.into(),
        Value::S64(value) => value.into(),
        Value::S32(value) => value.into(),
        Value::S16(value) => value.into(),
        Value::F32(_) | Value::F64(_) => {
            let value = value.as_f64();
            // JSON has no word for what is not finite; it is kept as text.
            Number::from_f64(value).map_or_else(|| value.to_string().into(), Into::into)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_exactly() {
        let values = [
            Value::U64(u64::MAX),
            Value::S64(i64::MIN),
            Value::F64(0.1),
            Value::F64(f64::NAN),
        ];
        let mut notes = Notes::from_entry(&number_note(Some("k".to_owned()), &values, 4));
        notes.add(&text(None, "a\"b", 9));
        assert_eq!(
            notes.text().unwrap(),
            r#"[{"key":"k","values":[18446744073709551615,-9223372036854775808,0.1,"NaN"]},{"key":null,"length_bytes":9,"text":"a\"b"}]"#
        );
        assert_eq!(Notes::default().text(), None);
    }
}
