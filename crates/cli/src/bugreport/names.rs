//! Placeholders of redacted text: equal texts get equal ones, within one report.

use std::collections::HashMap;

/// Placeholders that were given so far.
#[derive(Debug, Default)]
pub(super) struct PlaceholderTable {
    given: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
}

impl PlaceholderTable {
    /// Returns the placeholder of `secret`, of this kind; the same secret keeps its placeholder.
    pub(super) fn placeholder(&mut self, kind: &'static str, secret: &str) -> String {
        if let Some(name) = self.given.get(secret) {
            return name.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let name = format!("<{kind}-{count}>");
        self.given.insert(secret.to_owned(), name.clone());
        name
    }

    /// Returns all, the longest first: a part of a secret must not be replaced before the whole.
    pub(super) fn longest_first(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<(&str, &str)> = self
            .given
            .iter()
            .map(|(secret, name)| (secret.as_str(), name.as_str()))
            .collect();
        all.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then(a.cmp(b)));
        all
    }
}
