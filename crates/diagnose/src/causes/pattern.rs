//! Names with `*`, which matches any characters, or none.

/// Literal parts of a pattern, between its stars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamePattern {
    text: String,
    parts: Vec<String>,
}

impl NamePattern {
    /// Parses a pattern of a name; `None`: the text has no star.
    pub(super) fn parse(text: &str) -> Option<Self> {
        text.contains('*').then(|| Self {
            text: text.to_owned(),
            parts: text.split('*').map(str::to_owned).collect(),
        })
    }

    /// Returns the pattern as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns how many characters are not stars: the more, the more specific.
    pub(super) fn literal_count(&self) -> usize {
        self.parts.iter().map(String::len).sum()
    }

    /// Returns the number of stars in the pattern.
    pub(super) fn star_count(&self) -> usize {
        self.parts.len() - 1
    }

    /// Returns the byte with which matching names begin; `None`: any.
    pub(super) fn first_byte(&self) -> Option<u8> {
        self.parts.first()?.bytes().next()
    }

    /// Returns whether a name has all parts of the pattern, in order, from begin to end.
    pub(super) fn matches(&self, name: &str) -> bool {
        let [first, middle @ .., last] = self.parts.as_slice() else {
            return false;
        };
        let Some(rest) = name.strip_prefix(first.as_str()) else {
            return false;
        };
        let Some(mut rest) = rest.strip_suffix(last.as_str()) else {
            return false;
        };
        for part in middle {
            match rest.split_once(part.as_str()) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        true
    }
}
