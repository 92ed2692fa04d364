//! Maps that programs write of the code that they make: one line a function, with its first address, its length and its
//! name, as perf(1) reads them. Node.js, Java and Python write such. Another process may have written what is there: each
//! line is taken as it is, and what is no line is left out.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Functions that are kept of a map; further ones are left out.
const FUNCTIONS_MOST: usize = 1 << 20;

/// Bytes of a line, and of a name; what is longer is cut.
const LINE_MOST: usize = 4096;
const NAME_MOST: usize = 256;

/// Returns the path of a process's map, as the process sees it.
pub(super) fn path(pid: u32) -> String {
    format!("/tmp/perf-{pid}.map")
}

/// Functions by their first addresses, without overlaps: where a line names code that an earlier one named, the earlier one
/// is gone.
#[derive(Debug, Default)]
pub(crate) struct PerfMap {
    functions: BTreeMap<u64, (u64, Rc<str>)>,
    /// The line that is not complete yet.
    rest: Vec<u8>,
    /// It is too long, and its rest is left out.
    is_cut: bool,
}

impl PerfMap {
    /// Adds the next bytes of the file.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            let room = LINE_MOST - self.rest.len();
            self.is_cut |= part.len() > room;
            self.rest.extend_from_slice(&part[..part.len().min(room)]);
            if lines.peek().is_some() {
                let line = std::mem::take(&mut self.rest);
                self.add_line(&line);
                self.is_cut = false;
            }
        }
    }

    /// Adds a line `START LENGTH NAME`; ignores a line of another form.
    fn add_line(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let mut words = line.splitn(3, ' ');
        let mut hex = || {
            let word = words.next()?;
            u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
        };
        let (Some(start), Some(length)) = (hex(), hex()) else {
            return;
        };
        let name = words.next().unwrap_or_default().trim();
        let end = start.checked_add(length).filter(|end| *end > start);
        let (false, Some(end)) = (name.is_empty(), end) else {
            return;
        };
        self.forget_range(start, end);
        if self.functions.len() < FUNCTIONS_MOST {
            let name: String = name.chars().take(NAME_MOST).collect();
            self.functions.insert(start, (end, name.into()));
        }
    }

    /// Removes functions that overlap these addresses.
    fn forget_range(&mut self, start: u64, end: u64) {
        let before = self.functions.range(..start).next_back();
        let before = before.filter(|(_, (last, _))| *last > start);
        let first = before.map_or(start, |(first, _)| *first);
        while let Some((at, _)) = self.functions.range(first..end).next() {
            let at = *at;
            self.functions.remove(&at);
        }
    }

    /// Returns the first address and the name of the function at an address.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, &Rc<str>)> {
        let (start, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some((*start, name))
    }

    /// Returns the number of functions in the map.
    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }
}

/// A name in the words of its language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CodeName {
    pub(super) function: String,
    pub(super) source: Option<String>,
    pub(super) line: Option<u32>,
}

/// Kinds of code that V8 writes before names.
const V8_KINDS: [&str; 6] = [
    "JS:",
    "LazyCompile:",
    "Function:",
    "Script:",
    "Eval:",
    "Module:",
];

impl CodeName {
    /// Splits a function's name, as a program wrote it, into function, file and line.
    pub(super) fn parse(name: &str) -> Self {
        let of_v8 = V8_KINDS.iter().find_map(|kind| name.strip_prefix(kind));
        if let Some(rest) = of_v8 {
            return Self::from_v8(rest.trim_start_matches(['*', '~', '^', '+']));
        }
        if let Some((function, source)) =
            name.strip_prefix("py::").and_then(|it| it.split_once(':'))
        {
            return Self {
                function: function.to_owned(),
                source: Some(source.to_owned()),
                line: None,
            };
        }
        Self {
            function: name.to_owned(),
            source: None,
            line: None,
        }
    }

    /// Splits a name of V8: `name file:line:column`; the name may be empty.
    fn from_v8(name: &str) -> Self {
        let (function, place) = name.split_once(' ').unwrap_or((name, ""));
        let mut parts = place.rsplitn(3, ':');
        let (_column, line, file) = (parts.next(), parts.next(), parts.next());
        let line = line.and_then(|line| line.parse().ok());
        let function = match function {
            "" => "(anonymous)",
            function => function,
        };
        Self {
            function: function.to_owned(),
            source: file.filter(|_| line.is_some()).map(str::to_owned),
            line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name of the function at an address.
    fn name(map: &PerfMap, address: u64) -> Option<&str> {
        map.find(address).map(|(_, name)| &**name)
    }

    #[test]
    fn lines_are_read_in_pieces() {
        let text = "1000 20 first\n0x1020 0x10 int Second.run(int)\n1030 10 third";
        for cut in 0..text.len() {
            let mut map = PerfMap::default();
            map.add(&text.as_bytes()[..cut]);
            map.add(&text.as_bytes()[cut..]);
            assert_eq!(name(&map, 0x0fff), None);
            assert_eq!(name(&map, 0x101f), Some("first"));
            assert_eq!(name(&map, 0x1020), Some("int Second.run(int)"));
            assert_eq!(name(&map, 0x1030), None, "its line has no end yet");
        }
    }

    #[test]
    fn the_latest_code_at_an_address_counts() {
        let mut map = PerfMap::default();
        map.add(b"1000 100 old\n2000 10 other\n1080 10 new\n");
        assert_eq!(name(&map, 0x1080), Some("new"));
        assert_eq!(name(&map, 0x1000), None);
        assert_eq!(name(&map, 0x2000), Some("other"));
        map.add(b"0 ffffffffffffffff all\n");
        assert_eq!((map.len(), name(&map, 0x2000)), (1, Some("all")));
    }

    #[test]
    fn invalid_lines_are_left_out() {
        let mut map = PerfMap::default();
        map.add(b"\n \nx y z\n1000\n1000 10\n1000 0 empty\n1000 10 \nffffffffffffffff 10 beyond\n");
        map.add(b"\xff\xfe\0\n-1000 10 negative\n1ffffffffffffffff 1 long\n");
        assert_eq!(map.len(), 0);
        map.add(&vec![b'a'; 3 * LINE_MOST]);
        assert_eq!(map.rest.len(), LINE_MOST);
        map.add(b"\n1000 10 next\n");
        assert_eq!(name(&map, 0x1000), Some("next"));
        let long = format!("3000 10 {}\n", "é".repeat(LINE_MOST));
        map.add(long.as_bytes());
        assert_eq!(
            name(&map, 0x3000).map(|it| it.chars().count()),
            Some(NAME_MOST)
        );
    }

    #[test]
    fn names_are_in_the_words_of_their_language() {
        let parsed = |name: &str| {
            let CodeName {
                function,
                source,
                line,
            } = CodeName::parse(name);
            (function, source.unwrap_or_default(), line.unwrap_or(0))
        };
        let of =
            |function: &str, source: &str, line| (function.to_owned(), source.to_owned(), line);
        assert_eq!(
            parsed("JS:*busy /srv/a.js:12:7"),
            of("busy", "/srv/a.js", 12)
        );
        assert_eq!(
            parsed("LazyCompile:~ file:///srv/a.mjs:1:1"),
            of("(anonymous)", "file:///srv/a.mjs", 1)
        );
        assert_eq!(parsed("py::busy:/srv/a.py"), of("busy", "/srv/a.py", 0));
        assert_eq!(
            parsed("long Busy.burn(int)"),
            of("long Busy.burn(int)", "", 0)
        );
        assert_eq!(parsed("JS:"), of("(anonymous)", "", 0));
    }
}
