//! A counter of a program, as reports have it.

use serde::Serialize;

use crate::answer::Process;

/// A counter that a program reports.
#[derive(Debug, Clone, Serialize)]
pub struct CounterReport {
    /// Process.
    pub process: Process,
    /// Its domain; `None`: the program gave none.
    pub domain: Option<String>,
    /// Its name; `None`: lost.
    pub name: Option<String>,
    /// Unit of its values, in the program's words.
    pub unit: Option<String>,
    /// Number of values, or of changes.
    pub values: u64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Last value.
    pub last: f64,
    /// Groups of waits that go with it when they are slow.
    pub slow_waits: Vec<String>,
}

impl CounterReport {
    /// Returns the counter's name with its domain, as reports print it.
    pub fn title(&self) -> String {
        let name = self.name.as_deref().unwrap_or("counter with a lost name");
        match &self.domain {
            Some(domain) => format!("{domain}: {name}"),
            None => name.to_owned(),
        }
    }
}
