//! Addresses within text, whatever is around them: `to=10.1.2.3`, `http://[fe80::1%eth0]:80/x`, `10.1.2.3/24`. In
//! doubt it is one: a number in four parts, too. Times and numbers in three parts are none.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

/// Letters of the longest: `ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255`.
const LONGEST: usize = 45;

/// Pairs of digits in an adapter's address; InfiniBand's have more.
const LEAST_PAIRS: usize = 6;

/// An address in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Where it is, with its zone.
    pub(super) place: Range<usize>,
    /// Equal for equal ones, however they are written.
    pub(super) text: String,
    /// Every host has it.
    pub(super) is_common: bool,
}

/// Finds all addresses, in the order of the text.
pub(super) fn find(text: &str) -> Vec<Address> {
    let mut found = Vec::new();
    let mut from = 0;
    while from < text.len() {
        let address = find_address_at(text, from);
        from = address.as_ref().map_or(from + 1, |it| it.place.end);
        found.extend(address);
    }
    found
}

/// Returns the text between addresses.
pub(super) fn texts_between_addresses(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for address in find(text) {
        pieces.push(&text[from..address.place.start]);
        from = address.place.end;
    }
    pieces.push(&text[from..]);
    pieces
}

/// Returns the longest address that begins here.
fn find_address_at(text: &str, from: usize) -> Option<Address> {
    let all = [
        version_4(text, from),
        version_6(text, from),
        find_hardware_address(text, from),
    ];
    all.into_iter().flatten().max_by_key(|it| it.place.end)
}

/// Returns the IPv4 address that begins here, with its zone; `None` between digits. `ss` gives
/// these a zone, too.
fn version_4(text: &str, from: usize) -> Option<Address> {
    let bytes = text.as_bytes();
    if from > 0 && bytes[from - 1].is_ascii_digit() {
        return None;
    }
    let mut octets = [0u8; 4];
    let mut end = from;
    for (number, octet) in octets.iter_mut().enumerate() {
        if number > 0 {
            end = index_after_byte(bytes, end, b'.')?;
        }
        let digits = run(bytes, end, 4, |byte| byte.is_ascii_digit());
        if !(1..=3).contains(&digits) {
            return None;
        }
        // zeros before it are no octal number here
        *octet = text[end..end + digits].parse().ok()?;
        end += digits;
    }
    Some(ip_address(
        from..end + zone_length(bytes, end),
        octets.into(),
    ))
}

/// Finds an IPv6 address that is no part of a longer word: `probe::udp` has none.
fn version_6(text: &str, from: usize) -> Option<Address> {
    let bytes = text.as_bytes();
    if from > 0 && is_of_word(bytes[from - 1]) {
        return None;
    }
    let is_of_address = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
    let longest = run(bytes, from, LONGEST, is_of_address);
    let colons = bytes[from..from + longest].iter();
    if colons.filter(|byte| **byte == b':').count() < 2 {
        return None;
    }
    let is_end = |end: &usize| bytes.get(*end).is_none_or(|byte| !is_of_word(*byte));
    let mut ends = (from + 2..=from + longest).rev().filter(is_end);
    let parsed = |end: usize| Some((end, text[from..end].parse::<Ipv6Addr>().ok()?));
    let (end, address) = ends.find_map(parsed)?;
    Some(ip_address(
        from..end + zone_length(bytes, end),
        address.into(),
    ))
}

/// Bytes of the zone after an address: `%eth0`.
fn zone_length(bytes: &[u8], from: usize) -> usize {
    let Some(name) = index_after_byte(bytes, from, b'%') else {
        return 0;
    };
    let is_of_name = |byte: u8| is_of_word(byte) || b"-.@".contains(&byte);
    let mut length = run(bytes, name, bytes.len(), is_of_name);
    // the end of a sentence
    while length > 0 && bytes[name + length - 1] == b'.' {
        length -= 1;
    }
    if length == 0 { 0 } else { 1 + length }
}

/// Finds the address of an adapter: `02:ab:00:11:22:33`, or with hyphens.
fn find_hardware_address(text: &str, from: usize) -> Option<Address> {
    let bytes = text.as_bytes();
    let is_pair = |at: usize| run(bytes, at, 3, |byte| byte.is_ascii_hexdigit()) == 2;
    let between = *bytes.get(from + 2)?;
    let is_within = from > 0 && is_of_word(bytes[from - 1]);
    if is_within || !matches!(between, b':' | b'-') || !is_pair(from) {
        return None;
    }
    let (mut pairs, mut end) = (1, from + 2);
    while let Some(next) = index_after_byte(bytes, end, between).filter(|next| is_pair(*next)) {
        pairs += 1;
        end = next + 2;
    }
    let is_whole = bytes.get(end).is_none_or(|byte| !is_of_word(*byte));
    (pairs >= LEAST_PAIRS && is_whole).then(|| Address {
        place: from..end,
        text: text[from..end].to_ascii_lowercase().replace('-', ":"),
        is_common: false,
    })
}

/// Makes the address found at this place; loopback and "any" are common to all hosts.
fn ip_address(place: Range<usize>, address: IpAddr) -> Address {
    let address = address.to_canonical();
    Address {
        place,
        text: address.to_string(),
        is_common: address.is_loopback() || address.is_unspecified(),
    }
}

/// Returns the number of bytes from here on that match, at most `most`.
fn run(bytes: &[u8], from: usize, most: usize, is_such: impl Fn(u8) -> bool) -> usize {
    let bytes = bytes.iter().skip(from).take(most);
    bytes.take_while(|byte| is_such(**byte)).count()
}

/// Returns the index behind the byte at `at`, if that is `wanted`.
fn index_after_byte(bytes: &[u8], at: usize, wanted: u8) -> Option<usize> {
    (bytes.get(at) == Some(&wanted)).then_some(at + 1)
}

/// Returns whether a byte is a letter, a digit or `_`.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the addresses in a text, and the text without them.
    fn taken(text: &str) -> (Vec<String>, String) {
        let found = find(text).into_iter().map(|it| it.text).collect();
        (found, texts_between_addresses(text).concat())
    }

    #[test]
    fn text_around_addresses_stays() {
        let known = [
            ("to=10.1.2.3", "10.1.2.3", "to="),
            ("http://10.1.2.3/x", "10.1.2.3", "http:///x"),
            ("peer:10.1.2.3:80", "10.1.2.3", "peer::80"),
            ("(10.1.2.3),", "10.1.2.3", "(),"),
            ("10.1.2.3/24", "10.1.2.3", "/24"),
            ("at 010.001.002.003.", "10.1.2.3", "at ."),
            ("fe80::1%eth0.7.", "fe80::1", "."),
            ("10.1.2.3%eth0:68", "10.1.2.3", ":68"),
            ("[fe80::1%eth0]:80", "fe80::1", "[]:80"),
            ("peer:fe80::1: no", "fe80::1", "peer:: no"),
            ("2001:DB8:0:0::1/64", "2001:db8::1", "/64"),
            ("=::ffff:10.1.2.3", "10.1.2.3", "="),
            ("é10.1.2.3é", "10.1.2.3", "éé"),
            ("mac=02:AB:00:11:22:33:", "02:ab:00:11:22:33", "mac=:"),
            ("02-ab-00-11-22-33", "02:ab:00:11:22:33", ""),
        ];
        for (text, address, rest) in known {
            let (found, around) = taken(text);
            assert_eq!(
                (found.as_slice(), around.as_str()),
                (&[address.to_owned()][..], rest)
            );
        }
        assert_eq!(taken("10.1.2.3-10.1.2.9").0, ["10.1.2.3", "10.1.2.9"]);
    }

    #[test]
    fn times_and_versions_are_no_addresses() {
        for text in [
            "12:34:56",
            "2024-08-10T12:34:56.789Z",
            "12:34:56:78",
            "6.1.0-13",
            "6.18.44-fc-v657 #1 SMP PREEMPT_DYNAMIC @0",
            "999.1.2.3",
            "1.2.3.4567",
            "probe::udp, de::Error",
            "0a1b2c3d-0000-1111-2222-333344445555",
            "é:é:é%é",
            "",
        ] {
            let found = find(text);
            assert!(found.is_empty(), "{text}: {found:?}");
        }
    }

    #[test]
    fn loopback_and_unspecified_are_common() {
        for text in ["127.0.0.1:80", "[::1]:80", "0.0.0.0", "::ffff:127.0.0.1"] {
            let found = find(text);
            assert!(found.len() == 1 && found[0].is_common, "{found:?}");
        }
    }
}
