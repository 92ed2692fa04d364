//! Describes what lies where in a process: `/proc/PID/maps`.

use std::ops::Range;

use crate::processes;

/// Mappings of a process that are kept of the kernel's records; code that comes from no file is left out first, as a runtime
/// may make it without end.
const MOST: usize = 512;

/// Executable memory of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) addresses: Range<u64>,
    /// Where in the file the first byte is.
    pub(super) offset: u64,
    /// Device and inode of the file; inode 0: none.
    pub(super) file: (String, u64),
    /// Path or name; empty for memory of no file.
    pub(super) name: String,
}

impl Mapping {
    /// Returns whether the program made the code itself: it comes from no file.
    pub(super) fn is_generated(&self) -> bool {
        let name = self.name.as_str();
        let is_named = ["[anon", "//anon", "/memfd:"]
            .iter()
            .any(|it| name.starts_with(it));
        is_named || self.file.1 == 0 && name.is_empty()
    }

    /// Returns the part at these addresses, which are its own; None if there are none.
    fn cut(&self, addresses: Range<u64>) -> Option<Self> {
        let offset = self.offset + addresses.start.checked_sub(self.addresses.start)?;
        (!addresses.is_empty()).then(|| Self {
            addresses,
            offset,
            ..self.clone()
        })
    }
}

/// Returns the executable mappings of a process by address; none if it has ended.
pub(super) fn read(pid: u32) -> Vec<Mapping> {
    if !processes::sees_all() {
        return Vec::new();
    }
    read_lines(&pid.to_string(), parse)
}

/// Returns device and inode of the file that this process has mapped at an address.
pub(super) fn file_at(address: u64) -> Option<(String, u64)> {
    let own = read_lines("self", |line| parse_any(line).map(|(_, mapping)| mapping));
    find(&own, address).map(|mapping| mapping.file.clone())
}

/// Returns what lines of `/proc/PID/maps` say.
fn read_lines(pid: &str, parse: impl Fn(&str) -> Option<Mapping>) -> Vec<Mapping> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    maps.lines().filter_map(parse).collect()
}

/// Reads a line of `/proc/PID/maps`; `None` if it is not executable.
fn parse(line: &str) -> Option<Mapping> {
    let (is_code, mapping) = parse_any(line)?;
    is_code.then_some(mapping)
}

/// Reads a line of `/proc/PID/maps`, and whether it is executable.
fn parse_any(line: &str) -> Option<(bool, Mapping)> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let is_code = fields.next()?.as_bytes().get(2) == Some(&b'x');
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    let offset = hex(fields.next()?)?;
    let device = fields.next()?.to_owned();
    let inode = fields.next()?.parse().ok()?;
    let name = fields.next().unwrap_or_default().trim_start();
    let mapping = Mapping {
        addresses: hex(start)?..hex(end)?,
        offset,
        file: (device, inode),
        name: name.strip_suffix(" (deleted)").unwrap_or(name).to_owned(),
    };
    Some((is_code, mapping))
}

/// Returns the mapping that holds an address.
pub(super) fn find(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let after = mappings.partition_point(|it| it.addresses.start <= address);
    let mapping = mappings.get(after.checked_sub(1)?)?;
    mapping.addresses.contains(&address).then_some(mapping)
}

/// Adds a mapping in the place of what it overlaps.
pub(super) fn add(mappings: &mut Vec<Mapping>, mapping: Mapping) {
    let addresses = mapping.addresses.clone();
    let first = mappings.partition_point(|it| it.addresses.end <= addresses.start);
    let after = mappings.partition_point(|it| it.addresses.start < addresses.end);
    let below = mappings[first..after].first();
    let below = below.and_then(|it| it.cut(it.addresses.start..addresses.start));
    let above = mappings[first..after].last();
    let above = above.and_then(|it| it.cut(addresses.end..it.addresses.end));
    let is_kept = mappings.len() < MOST || !mapping.is_generated() && mappings.len() < 2 * MOST;
    let own = is_kept.then_some(mapping);
    mappings.splice(first..after, below.into_iter().chain(own).chain(above));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes code of a file at these pages.
    fn code(pages: Range<u64>, inode: u64) -> Mapping {
        Mapping {
            addresses: pages.start << 12..pages.end << 12,
            offset: 0,
            file: ("fe:01".to_owned(), inode),
            name: "/bin/a".to_owned(),
        }
    }

    #[test]
    fn later_mapping_takes_the_place_of_what_it_overlaps() {
        let mut mappings = Vec::new();
        for (pages, inode) in [
            (4..6, 1),
            (8..9, 2),
            (6..8, 3),
            (5..7, 4),
            (12..20, 5),
            (14..15, 6),
        ] {
            add(&mut mappings, code(pages, inode));
        }
        let pages = mappings.iter().map(|it| {
            let pages = it.addresses.start >> 12..it.addresses.end >> 12;
            (pages, it.file.1, it.offset >> 12)
        });
        let expected = [
            (4..5, 1, 0),
            (5..7, 4, 0),
            (7..8, 3, 1),
            (8..9, 2, 0),
            (12..14, 5, 0),
            (14..15, 6, 0),
            (15..20, 5, 3),
        ];
        assert_eq!(pages.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn code_of_files_is_kept_before_code_of_none() {
        let mut mappings = Vec::new();
        let generated = |page| Mapping {
            name: "//anon".to_owned(),
            ..code(page..page + 1, 0)
        };
        for page in 0..2 * MOST as u64 {
            add(&mut mappings, generated(page));
        }
        assert_eq!(mappings.len(), MOST);
        for page in 0..2 * MOST as u64 {
            add(&mut mappings, code(10_000 + page..10_001 + page, page));
        }
        assert_eq!(mappings.len(), 2 * MOST);
    }

    #[test]
    fn only_code_is_read() {
        let code = "7f00-7f80 r-xp 00001000 fe:01 1234                 /usr/lib/a b.so (deleted)";
        let mapping = parse(code).expect("a mapping");
        assert_eq!(mapping.addresses, 0x7f00..0x7f80);
        assert_eq!((mapping.offset, mapping.file.1), (0x1000, 1234));
        assert_eq!(mapping.name, "/usr/lib/a b.so");
        assert_eq!(
            parse("7f00-7f80 r--p 00001000 fe:01 1234  /usr/lib/a.so"),
            None
        );
        assert_eq!(
            parse("7f00-7f80 r-xp 0 00:00 0").map(|it| it.name),
            Some(String::new())
        );
        for cut in 0..40 {
            parse(&code[..cut]);
        }
    }

    #[test]
    fn an_address_is_found_in_its_own_mapping_only() {
        let mappings = read(std::process::id());
        let inside = find as fn(&[Mapping], u64) -> Option<&Mapping> as usize as u64;
        let mapping = find(&mappings, inside).expect("this function lies somewhere");
        let own = std::env::current_exe().expect("a program");
        assert_eq!(mapping.name, own.to_string_lossy());
        assert_eq!(file_at(inside), Some(mapping.file.clone()));
        assert_eq!(find(&mappings, 0), None);
        assert_eq!(find(&mappings, u64::MAX), None);
    }
}
