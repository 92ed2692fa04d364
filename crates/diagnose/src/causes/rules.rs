//! Lines of CSV → rules, and which of them decides of a name.

use std::collections::HashMap;

use table::ActivityKind;

use super::cause::Cause;
use super::pattern::NamePattern;
use super::symbol;

/// The first line, which may be left out.
const HEADING: &str = "pattern,cause,kind";

/// Names that are distinguished by what they name.
const KINDS: [ActivityKind; 5] = [
    ActivityKind::Function,
    ActivityKind::Syscall,
    ActivityKind::Softirq,
    ActivityKind::Irq,
    ActivityKind::Task,
];

/// A line of a CSV of categories that is no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoriesError {
    /// Its number, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// Fault.
    pub why: CategoryFault,
}

/// Fault of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CategoryFault {
    /// It has not two or three columns.
    Columns,
    /// There is no such cause.
    Cause(String),
    /// There is no such kind.
    Kind(String),
    /// The pattern would match all.
    Pattern,
    /// An earlier line, of this number, has the pattern, too.
    Twice(usize),
}

impl std::error::Error for CategoriesError {}

impl std::fmt::Display for CategoriesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, text, why } = self;
        write!(f, "line {line} of the categories, `{text}`: ")?;
        match why {
            CategoryFault::Columns => write!(
                f,
                "it must have two or three columns\nhint: pattern,cause or pattern,cause,kind; nothing is \
                    quoted, and a comment begins its line with #"
            ),
            CategoryFault::Cause(name) => {
                let names: Vec<_> = Cause::ALL.iter().map(|cause| cause.name()).collect();
                write!(f, "there is no cause `{name}`\nhint: {}", names.join(", "))
            }
            CategoryFault::Kind(name) => {
                let names = KINDS.map(ActivityKind::name).join(", ");
                write!(f, "there is no kind `{name}`\nhint: {names}")
            }
            CategoryFault::Pattern => write!(
                f,
                "the pattern matches everything\nhint: write a name, or a part of it with * for the rest"
            ),
            CategoryFault::Twice(before) => write!(
                f,
                "line {before} has this pattern, too\nhint: remove one of the two"
            ),
        }
    }
}

/// The rule that matches a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CategoryMatch<'a> {
    pub(super) pattern: &'a str,
    pub(super) cause: Cause,
}

/// The rules of one file.
#[derive(Debug, Clone, Default)]
pub(super) struct CategoryRules {
    kinds: HashMap<ActivityKind, KindRules>,
}

/// The rules of one kind.
#[derive(Debug, Clone, Default)]
struct KindRules {
    /// With the number of the line.
    exact: HashMap<String, (Cause, usize)>,
    /// By the first character of names, most specific first.
    patterns: HashMap<Option<u8>, Vec<(NamePattern, Cause, usize)>>,
}

impl CategoryRules {
    /// Reads rules from lines of CSV; skips empty lines and those that begin with `#`.
    pub(super) fn parse(csv: &str) -> Result<Self, CategoriesError> {
        let mut rules = Self::default();
        for (index, text) in csv.lines().enumerate() {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') || (index == 0 && HEADING.starts_with(text))
            {
                continue;
            }
            rules.line(index + 1, text).map_err(|why| CategoriesError {
                line: index + 1,
                text: text.to_owned(),
                why,
            })?;
        }
        let of_kinds = rules.kinds.values_mut();
        for patterns in of_kinds.flat_map(|of_kind| of_kind.patterns.values_mut()) {
            patterns.sort_by(|a, b| is_before(&a.0, &b.0));
        }
        Ok(rules)
    }

    /// Adds the rule of one line: `PATTERN,CAUSE` or `PATTERN,CAUSE,KIND`.
    fn line(&mut self, number: usize, text: &str) -> Result<(), CategoryFault> {
        let columns: Vec<_> = text.split(',').map(str::trim).collect();
        let (pattern, cause, kind) = match columns.as_slice() {
            [pattern, cause] => (*pattern, *cause, ActivityKind::Function.name()),
            [pattern, cause, kind] => (*pattern, *cause, *kind),
            _ => return Err(CategoryFault::Columns),
        };
        let cause =
            Cause::from_name(cause).ok_or_else(|| CategoryFault::Cause(cause.to_owned()))?;
        let known = KINDS.into_iter().find(|known| known.name() == kind);
        let kind = known.ok_or_else(|| CategoryFault::Kind(kind.to_owned()))?;
        if pattern.bytes().all(|byte| byte == b'*') {
            return Err(CategoryFault::Pattern);
        }
        self.kinds
            .entry(kind)
            .or_default()
            .add(pattern, cause, number)
    }

    /// The most specific rule that a name meets.
    pub(super) fn find(&self, kind: ActivityKind, name: &str) -> Option<CategoryMatch<'_>> {
        let of_kind = self.kinds.get(&kind);
        if kind != ActivityKind::Function {
            return of_kind?.find(name);
        }
        let name = symbol::strip_suffixes(name);
        let inner = name.trim_start_matches('_');
        of_kind
            .and_then(|rules| rules.find(name).or_else(|| rules.find(inner)))
            .or_else(|| self.find(ActivityKind::Syscall, symbol::syscall(name)?))
    }

    /// Names and patterns of a kind.
    #[cfg(test)]
    pub(super) fn names_and_patterns(&self, kind: ActivityKind) -> (Vec<&str>, Vec<&NamePattern>) {
        let Some(of_kind) = self.kinds.get(&kind) else {
            return (Vec::new(), Vec::new());
        };
        let patterns = of_kind.patterns.values().flatten();
        (
            of_kind.exact.keys().map(String::as_str).collect(),
            patterns.map(|(pattern, ..)| pattern).collect(),
        )
    }
}

impl KindRules {
    /// Adds a rule; an error if an earlier line has the same pattern.
    fn add(&mut self, text: &str, cause: Cause, number: usize) -> Result<(), CategoryFault> {
        let Some(pattern) = NamePattern::parse(text) else {
            return match self.exact.insert(text.to_owned(), (cause, number)) {
                Some((_, before)) => Err(CategoryFault::Twice(before)),
                None => Ok(()),
            };
        };
        let alike = self.patterns.entry(pattern.first_byte()).or_default();
        if let Some((_, _, before)) = alike.iter().find(|(known, ..)| known.text() == text) {
            return Err(CategoryFault::Twice(*before));
        }
        alike.push((pattern, cause, number));
        Ok(())
    }

    /// Returns the rule for a name: an exact rule first, else the most specific pattern.
    fn find(&self, name: &str) -> Option<CategoryMatch<'_>> {
        if let Some((pattern, (cause, _))) = self.exact.get_key_value(name) {
            return Some(CategoryMatch {
                pattern,
                cause: *cause,
            });
        }
        let of_first = |first: Option<u8>| {
            let patterns = self.patterns.get(&first)?;
            patterns.iter().find(|(pattern, ..)| pattern.matches(name))
        };
        let candidates = [of_first(name.bytes().next()), of_first(None)];
        let matches = candidates.into_iter().flatten();
        let (pattern, cause, _) = matches.min_by(|a, b| is_before(&a.0, &b.0))?;
        Some(CategoryMatch {
            pattern: pattern.text(),
            cause: *cause,
        })
    }
}

/// The more specific pattern is before: that with more literal characters, then with fewer stars,
/// then by the alphabet.
fn is_before(a: &NamePattern, b: &NamePattern) -> std::cmp::Ordering {
    let key = |it: &NamePattern| (std::cmp::Reverse(it.literal_count()), it.star_count());
    key(a).cmp(&key(b)).then_with(|| a.text().cmp(b.text()))
}
