//! How much of an answer is given at once, and how to go on.

use anyhow::bail;
use diagnose::units::count;

/// Bytes of one piece. Assistants warn at 10,000 tokens, of some 3 bytes each in tables and JSON.
pub(super) const PIECE_BYTES: usize = 30_000;

/// Entries of a list that one call may ask for.
pub(super) const MOST_ENTRIES: u64 = 1_000;

/// Answers a call of a tool.
#[derive(Debug)]
pub(super) enum ToolAnswer {
    /// A text that is given in pieces.
    Whole(String),
    /// Some entries of a list.
    Entries(AnswerPiece),
}

/// Holds what is given at once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AnswerPiece {
    pub(super) text: String,
    /// Damage that makes it incomplete.
    pub(super) warning: Option<String>,
    /// The rest: in words, and the cursor of the next call.
    pub(super) rest: Option<(String, u64)>,
}

impl AnswerPiece {
    /// Returns the remark behind the piece: rows left, or problems; `None`: neither.
    pub(super) fn remark(&self) -> Option<String> {
        let next = |(words, next): &(String, u64)| {
            format!("{words}; next: call again with \"cursor\": {next}")
        };
        let warning = self.warning.as_ref().map(|why| format!("warning: {why}"));
        let lines: Vec<_> = warning
            .into_iter()
            .chain(self.rest.as_ref().map(next))
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Returns the piece of a text that starts at a cursor. It ends with a line, if one ends in time.
///
/// # Errors
/// When no answer gave this cursor.
pub(super) fn cut_piece(text: &str, cursor: u64) -> anyhow::Result<AnswerPiece> {
    let begin = usize::try_from(cursor).unwrap_or(usize::MAX);
    let Some(left) = text
        .get(begin..)
        .filter(|left| begin == 0 || !left.is_empty())
    else {
        bail!(
            "no answer had the cursor {cursor}: this answer has {} bytes\nhint: call without a cursor, and then \
                with the cursor of each answer",
            count(text.len() as u64)
        );
    };
    if left.len() <= PIECE_BYTES {
        return Ok(AnswerPiece {
            text: left.to_owned(),
            warning: None,
            rest: None,
        });
    }
    let is_end = |end: &usize| left.is_char_boundary(*end);
    let longest = &left[..(0..=PIECE_BYTES).rev().find(is_end).unwrap_or(0)];
    let end = longest.rfind('\n').map_or(longest.len(), |line| line + 1);
    let words = format!("{} more bytes", count((left.len() - end) as u64));
    Ok(AnswerPiece {
        text: left[..end].to_owned(),
        warning: None,
        rest: Some((words, cursor + end as u64)),
    })
}

/// Returns the entries of a list from a cursor on, and the rest: how many, and the cursor of the next call.
pub(super) fn list_part<T>(all: &[T], cursor: u64, limit: u64) -> (&[T], Option<(u64, u64)>) {
    let begin = as_size(cursor).min(all.len());
    let end = begin.saturating_add(as_size(limit)).min(all.len());
    let left = (all.len() - end) as u64;
    (&all[begin..end], (left > 0).then_some((left, end as u64)))
}

/// Converts a number to a length, at most the largest one.
pub(super) fn as_size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the limit of a list.
///
/// # Errors
/// When it is zero, or larger than one call may ask for.
pub(super) fn list_limit(given: Option<u64>, default: u64) -> anyhow::Result<u64> {
    match given.unwrap_or(default) {
        0 => bail!("limit 0 asks for no entry\nhint: give at least 1, or leave it out"),
        limit if limit > MOST_ENTRIES => bail!(
            "limit {limit} is more than {}, the most of one call\nhint: give a smaller limit, and continue with \
                the cursor or with filters",
            count(MOST_ENTRIES)
        ),
        limit => Ok(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_pieces_are_the_text() {
        let line = format!("{}é\n", "x".repeat(998));
        for text in [line.repeat(100), "é".repeat(PIECE_BYTES), String::new()] {
            let (mut all, mut cursor) = (String::new(), 0);
            loop {
                let piece = cut_piece(&text, cursor).expect("a cursor that was given");
                assert!(piece.text.len() <= PIECE_BYTES);
                all.push_str(&piece.text);
                let Some((_, next)) = piece.rest else {
                    break;
                };
                assert!(next > cursor);
                cursor = next;
            }
            assert_eq!(all, text);
        }
        assert!(
            cut_piece("é", 1).is_err()
                && cut_piece("é", 2).is_err()
                && cut_piece("é", u64::MAX).is_err()
        );
    }

    #[test]
    fn joined_parts_are_the_list() {
        let all = [1, 2, 3];
        assert_eq!(list_part(&all, 0, 2), (&all[..2], Some((1, 2))));
        assert_eq!(list_part(&all, 2, 2), (&all[2..], None));
        assert_eq!(list_part(&all, u64::MAX, u64::MAX), (&all[3..], None));
    }

    #[test]
    fn limits_are_bounded() {
        assert_eq!(list_limit(None, 10).expect("the default"), 10);
        assert_eq!(
            list_limit(Some(MOST_ENTRIES), 10).expect("the most"),
            MOST_ENTRIES
        );
        assert!(list_limit(Some(0), 10).is_err() && list_limit(Some(u64::MAX), 10).is_err());
    }
}
