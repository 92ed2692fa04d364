//! Words and times of traces that are text.

/// Returns the ns of `SECONDS.FRACTION`; drops digits below a nanosecond.
pub(crate) fn seconds_ns(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(9)];
    let scale = 10_u64.pow(9 - fraction.len() as u32);
    let fraction_ns = fraction.parse::<u64>().ok()? * scale;
    let seconds_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    seconds_ns.checked_add(fraction_ns)
}

/// Returns the first word of a text, and what follows it.
pub(crate) fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    match text.find(char::is_whitespace) {
        Some(end) => text.split_at(end),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::seconds_ns;

    #[test]
    fn seconds_become_nanoseconds() {
        assert_eq!(seconds_ns("1.000000001"), Some(1_000_000_001));
        assert_eq!(seconds_ns("0.5"), Some(500_000_000));
        assert_eq!(seconds_ns("0.1234567899"), Some(123_456_789));
        for text in [
            "",
            "1",
            ".",
            "1.",
            ".1",
            "-1.0",
            "1.x",
            "99999999999999999999.0",
            "18446744074.0",
        ] {
            assert_eq!(seconds_ns(text), None, "{text}");
        }
    }
}
