//! Why nothing is recorded of a program.

/// Why there is nothing from the program, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub why: String,
    /// The remedy.
    pub remedy: String,
}

impl Refusal {
    /// Makes a refusal of an error with a hint at its end.
    pub(super) fn from_error(error: &impl ToString) -> Self {
        let text = error.to_string();
        let (why, remedy) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        Self {
            why: why.to_owned(),
            remedy: remedy.to_owned(),
        }
    }
}
