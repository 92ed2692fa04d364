//! Attributes: names, and values by their types.

use crate::proto::{AnyValue, ArrayValue, KeyValue, Value};

/// Makes an attribute.
pub fn attribute(key: impl Into<String>, value: impl Into<Value>) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: Some(AnyValue {
            value: Some(value.into()),
        }),
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Bool(is)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<u64> for Value {
    /// OTLP has no unsigned numbers: those beyond become the largest, which is 292 years in ns.
    fn from(number: u64) -> Self {
        Self::Whole(whole(number))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        let values = texts.into_iter().map(|text| AnyValue {
            value: Some(text.into()),
        });
        Self::List(ArrayValue {
            values: values.collect(),
        })
    }
}

/// Converts a number to OTLP's signed 64 bits.
pub fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
