//! Numbers as people read them: three significant digits, a unit, thousands separated.
//! Used by the sentences of the rules and by every text view, so that both agree.

/// Formats a duration in nanoseconds, such as `43.8 ms` or `3 min 20 s`.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => with_prefix(value / 1e3, "µs"),
        1_000_000..1_000_000_000 => with_prefix(value / 1e6, "ms"),
        1_000_000_000..120_000_000_000 => with_prefix(value / 1e9, "s"),
        _ => format_minutes(ns / 1_000_000_000),
    }
}

/// Formats seconds as minutes and seconds, from two hours on as hours and minutes.
fn format_minutes(seconds: u64) -> String {
    if seconds < 7_200 {
        format!("{} min {} s", seconds / 60, seconds % 60)
    } else {
        format!("{} h {} min", seconds / 3_600, seconds / 60 % 60)
    }
}

/// Formats a number of bytes, such as `91.4 kB` (powers of ten).
pub fn format_bytes(count: u64) -> String {
    let value = count as f64;
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => with_prefix(value / 1e3, "kB"),
        1_000_000..1_000_000_000 => with_prefix(value / 1e6, "MB"),
        1_000_000_000..1_000_000_000_000 => with_prefix(value / 1e9, "GB"),
        _ => with_prefix(value / 1e12, "TB"),
    }
}

/// A rate in bytes per second, given as network people do: `6.21 Mbit/s`.
pub fn format_rate(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    match bits {
        b if b < 1e3 => with_prefix(b, "bit/s"),
        b if b < 1e6 => with_prefix(b / 1e3, "kbit/s"),
        b if b < 1e9 => with_prefix(b / 1e6, "Mbit/s"),
        b => with_prefix(b / 1e9, "Gbit/s"),
    }
}

/// Formats a share of one as a percentage, such as `97.6 %`; a tiny share reads `<0.1 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value > 0.0 && value < 0.05 {
        "<0.1 %".to_owned()
    } else {
        format!("{value:.1} %")
    }
}

/// A part of a whole; nothing is none of nothing.
pub fn ratio_of(ns: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 {
        0.0
    } else {
        ns as f64 / whole_ns as f64
    }
}

/// Formats a count with separated thousands: `1,000,003`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 timeout`, `2 timeouts`.
pub fn quantity(number: u64, noun: &str) -> String {
    pluralize(&format!("{} {noun}(s)", count(number)), number)
}

/// Returns words that follow a number: `stall(s)` becomes `stall` after 1, else `stalls`.
pub fn pluralize(words: &str, number: u64) -> String {
    words.replace("(s)", if number == 1 { "" } else { "s" })
}

/// Formats a ratio such as `41×`; below ten with one decimal.
pub fn format_ratio(ratio: f64) -> String {
    if ratio < 9.95 {
        format!("{ratio:.1}×")
    } else {
        format!("{}×", count(ratio.round() as u64))
    }
}

/// Formats a value with three digits and its unit.
fn with_prefix(value: f64, unit: &str) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2} {unit}"),
        v if v < 99.95 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_numbers() {
        assert_eq!(quantity(1, "timeout"), "1 timeout");
        assert_eq!(quantity(1_009, "timeout"), "1,009 timeouts");
        assert_eq!(pluralize("stall(s) of ACK(s)", 1), "stall of ACK");
    }

    #[test]
    fn durations_keep_three_digits() {
        let cases = [
            (850, "850 ns"),
            (12_300, "12.3 µs"),
            (43_812_000, "43.8 ms"),
            (20_140_000_000, "20.1 s"),
            (200_000_000_000, "3 min 20 s"),
            (7_260_000_000_000, "2 h 1 min"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn counts_bytes_and_shares() {
        assert_eq!(count(1_000_003), "1,000,003");
        assert_eq!(count(999), "999");
        assert_eq!(format_bytes(91_400), "91.4 kB");
        assert_eq!(format_rate(775_000.0), "6.20 Mbit/s");
        assert_eq!(percent(0.9764), "97.6 %");
        assert_eq!(percent(0.000_1), "<0.1 %");
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(format_ratio(2.04), "2.0×");
        assert_eq!(format_ratio(1_234.4), "1,234×");
    }
}
