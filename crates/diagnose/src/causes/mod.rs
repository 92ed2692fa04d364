//! Why CPUs spent time: the name of what one did → a [`Cause`].
//!
//! Comes in: names as the table `activity` has them (functions, system calls, softirq vectors,
//! interrupts, threads). Goes out: one of some forty causes, each with what it means and what a user
//! can do; or nothing, for a name that no rule knows. The rules are lines of `categories.csv`, and of
//! a file of the user's own, which come first.
//!
//! ```text
//! cause           the causes
//! rules           lines of CSV → rules of each kind, and which of them a name meets
//! pattern         `tcp_*_timer`
//! symbol          a function's name without what the compiler added to it
//! ```

mod cause;
mod pattern;
mod rules;
mod symbol;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use table::ActivityKind;

pub use cause::Cause;
use rules::CategoryRules;
pub use rules::{CategoriesError, CategoryFault};

/// The categories of whylat itself.
const BUILT_IN: &str = include_str!("categories.csv");

/// Their rules, read once.
static BUILT_IN_RULES: LazyLock<Result<Arc<CategoryRules>, CategoriesError>> =
    LazyLock::new(|| CategoryRules::parse(BUILT_IN).map(Arc::new));

/// The cause of each name. Made once, then asked; see [`CauseCache`] where names come again and again.
#[derive(Debug, Clone)]
pub struct Categories {
    /// The user's own, if there are any, then whylat's.
    layers: Vec<Arc<CategoryRules>>,
}

impl Categories {
    /// The rules that come with whylat.
    ///
    /// # Errors
    /// A line of them is wrong: a test sees to it that none is.
    pub fn built_in() -> Result<Self, CategoriesError> {
        let layers = vec![BUILT_IN_RULES.clone()?];
        Ok(Self { layers })
    }

    /// Adds rules of a CSV of the user's own before these: what one of these knows, it decides,
    /// however general.
    ///
    /// # Errors
    /// The first line that is no rule.
    pub fn with_rules(mut self, csv: &str) -> Result<Self, CategoriesError> {
        self.layers.insert(0, Arc::new(CategoryRules::parse(csv)?));
        Ok(self)
    }

    /// The cause of an activity of the table; `None`: no rule knows it, so that its time is
    /// unexplained. The most specific rule decides: an exact name, then the pattern with the most
    /// literal characters. What a compiler added to a function's name is no part of it.
    ///
    /// A [`Cause::Helpers`] belongs to the function around it.
    pub fn cause(&self, kind: ActivityKind, name: Option<&str>) -> Option<Cause> {
        match (kind, name) {
            (ActivityKind::Idle, _) => Some(Cause::Idle),
            // an interrupt with only its entry known
            (ActivityKind::Irq, None) => Some(Cause::Interrupts),
            (ActivityKind::Syscall, None) => Some(Cause::SystemCalls),
            (_, name) => self
                .layers
                .iter()
                .find_map(|rules| rules.find(kind, name?))
                .map(|found| found.cause),
        }
    }

    /// The rule that decides, as it is written; `None` as in [`Categories::cause`], or where no rule
    /// is needed.
    pub fn rule(&self, kind: ActivityKind, name: &str) -> Option<&str> {
        let mut layers = self.layers.iter();
        Some(layers.find_map(|rules| rules.find(kind, name))?.pattern)
    }
}

/// Categories that remember each distinct name.
#[derive(Debug)]
pub struct CauseCache<'a> {
    categories: &'a Categories,
    causes: HashMap<ActivityKind, HashMap<String, Option<Cause>>>,
}

impl<'a> CauseCache<'a> {
    /// Makes an empty cache of the causes that these rules give.
    pub fn new(categories: &'a Categories) -> Self {
        let causes = HashMap::new();
        Self { categories, causes }
    }

    /// Returns the cause of an activity, as [`Categories::cause`]; asks the rules once for each
    /// name.
    pub fn cause(&mut self, kind: ActivityKind, name: Option<&str>) -> Option<Cause> {
        let Some(name) = name else {
            return self.categories.cause(kind, None);
        };
        let of_kind = self.causes.entry(kind).or_default();
        if let Some(known) = of_kind.get(name) {
            return *known;
        }
        let cause = self.categories.cause(kind, Some(name));
        of_kind.insert(name.to_owned(), cause);
        cause
    }
}
