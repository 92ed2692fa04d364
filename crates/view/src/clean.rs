//! Cleans names before they reach a terminal: a command name or a damaged recording may contain
//! terminal escapes.

/// Removes control characters (C0, DEL, C1) with the escape sequences they begin, and the
/// characters that reorder or break a line invisibly.
pub fn remove_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next_if(|next| !next.is_control()) {
                Some('[') => skip_control_sequence(&mut chars),
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string_sequence(&mut chars),
                _ => {}
            },
            '\u{9b}' => skip_control_sequence(&mut chars),
            '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => {
                skip_string_sequence(&mut chars)
            }
            '\n' | '\t' => out.push(' '),
            c if is_unsafe(c) => {}
            c => out.push(c),
        }
    }
    out
}

/// Returns whether a character must not reach a terminal or a reader unescaped.
pub fn is_unsafe(c: char) -> bool {
    let invisible = matches!(
        c,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    c.is_control() || invisible
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips a control sequence, which ends with a byte from `@` to `~` (ECMA-48, 5.4).
fn skip_control_sequence(chars: &mut Chars) {
    while let Some(c) = chars.next_if(|next| !next.is_control()) {
        if ('@'..='~').contains(&c) {
            return;
        }
    }
}

/// Skips a control string, which ends with BEL or the string terminator (ECMA-48, 5.6).
fn skip_string_sequence(chars: &mut Chars) {
    while let Some(c) = chars.next() {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                chars.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_removed() {
        assert_eq!(remove_controls("plain – µs → ok"), "plain – µs → ok");
        assert_eq!(remove_controls("a\u{1b}[31;1mred\u{1b}[0mb"), "aredb");
        assert_eq!(remove_controls("a\u{1b}]52;c;ZXZpbA==\u{7}b"), "ab");
        assert_eq!(remove_controls("a\u{1b}]0;title\u{1b}\\b"), "ab");
        assert_eq!(remove_controls("a\u{9b}2Jb\u{85}c\u{7f}"), "abc");
        assert_eq!(remove_controls("a\u{202e}evil\u{2066}b"), "aevilb");
        assert_eq!(remove_controls("a\nb\tc\rd\u{0}"), "a b cd");
    }

    #[test]
    fn unfinished_escape_is_removed() {
        assert_eq!(remove_controls("a\u{1b}"), "a");
        assert_eq!(remove_controls("a\u{1b}[31"), "a");
        assert_eq!(remove_controls("a\u{1b}]52;c;"), "a");
    }
}
