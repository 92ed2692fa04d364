//! One line of `perf script`: its kind, and its branch, error or frame.

use std::collections::HashSet;
use std::rc::Rc;

use crate::branch::{Branch, BranchKind, CodeLocation, FlowEdge};
use crate::text::{seconds_ns, split_word};

/// Beginning of every error of a decoder.
const ERROR: &str = "instruction trace error type ";

/// Names that occur again and again, each kept once.
#[derive(Debug, Default)]
pub(crate) struct NameInterner(HashSet<Rc<str>>);

impl NameInterner {
    /// Returns the shared copy of a name.
    pub(crate) fn get(&mut self, name: &str) -> Rc<str> {
        match self.0.get(name) {
            Some(known) => Rc::clone(known),
            None => {
                let name: Rc<str> = name.into();
                self.0.insert(Rc::clone(&name));
                name
            }
        }
    }
}

/// An error of the trace's decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceError<'a> {
    pub(crate) time_ns: Option<u64>,
    pub(crate) cpu: Option<u16>,
    pub(crate) pid: Option<u32>,
    pub(crate) tid: Option<u32>,
    pub(crate) message: &'a str,
}

impl<'a> TraceError<'a> {
    /// Returns whether a line is an error's, well formed or not.
    pub(crate) fn begins(line: &str) -> bool {
        line.trim_start().starts_with(ERROR)
    }

    /// Reads an error line: ` instruction trace error type T [time S.NS] cpu C pid P tid T ip IP
    /// code N: MESSAGE`.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let rest = line.trim_start().strip_prefix(ERROR)?;
        let (fields, message) = rest.split_once(": ")?;
        let mut words = fields.split_whitespace();
        words.next()?.parse::<u32>().ok()?;
        let mut error = Self {
            time_ns: None,
            cpu: None,
            pid: None,
            tid: None,
            message: message.trim_end(),
        };
        while let Some(name) = words.next() {
            let value = words.next()?;
            match name {
                "time" => error.time_ns = Some(seconds_ns(value)?),
                "cpu" => error.cpu = value.parse().ok(),
                "pid" => error.pid = value.parse().ok(),
                "tid" => error.tid = value.parse().ok(),
                "ip" | "code" => {}
                _ => return None,
            }
        }
        Some(error)
    }
}

/// Reads the branch of a line: `KIND [(FLAGS)] IP SYMBOL (DSO) => IP SYMBOL (DSO)`.
pub(crate) fn parse_branch(text: &str, names: &mut NameInterner) -> Option<Branch> {
    let (from, to) = text.split_at(text.rfind(" => ")?);
    let (to, _) = parse_place(&to[4..], names)?;
    let (edge, kind, in_transaction, from) = kind(from)?;
    parse_place(from, names)?;
    Some(Branch {
        kind,
        edge,
        in_transaction,
        to,
    })
}

/// Returns the words before the first address.
fn kind(text: &str) -> Option<(FlowEdge, BranchKind, bool, &str)> {
    let mut rest = text.trim_start();
    let (mut edge, mut kind, mut in_transaction) = (FlowEdge::Inside, BranchKind::Unknown, false);
    loop {
        let (word, after) = split_word(rest);
        if word.is_empty() {
            return None;
        }
        if let Some(flags) = word.strip_prefix('(') {
            in_transaction |= flags.contains('x');
        } else if address(word).is_some() {
            return Some((edge, kind, in_transaction, rest));
        }
        // Newer versions of perf append what the branch predictor did: `jcc/miss,not_taken/`.
        match word.split('/').next().unwrap_or_default() {
            "strt" if edge == FlowEdge::Inside => edge = FlowEdge::Begin,
            "end" if edge == FlowEdge::Inside => edge = FlowEdge::End,
            // Begun and ended at once: nothing ran.
            "end" => edge = FlowEdge::Inside,
            "call" => kind = BranchKind::Call,
            "return" => kind = BranchKind::Return,
            "jmp" | "jcc" => kind = BranchKind::Jump,
            "syscall" => kind = BranchKind::Syscall,
            "sysret" => kind = BranchKind::Sysret,
            "iret" => kind = BranchKind::Iret,
            "hw" => kind = BranchKind::Interrupt,
            "int" if kind != BranchKind::Interrupt => kind = BranchKind::Jump,
            "abrt" => kind = BranchKind::TransactionAbort,
            "vmentry" => edge = FlowEdge::End,
            "vmexit" => edge = FlowEdge::Begin,
            _ => {}
        }
        rest = after.trim_start();
    }
}

/// Returns the place of `IP SYMBOL+0xOFFSET (DSO)`, and whether it has a symbol.
pub(crate) fn parse_place(text: &str, names: &mut NameInterner) -> Option<(CodeLocation, bool)> {
    let (first, rest) = split_word(text);
    let address = address(first)?;
    let rest = rest.trim();
    let (symbol, object) = match rest
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once(" ("))
    {
        Some((symbol, object)) => (symbol.trim_end(), Some(object)),
        None => (rest, None),
    };
    let named = !symbol.is_empty() && symbol != "[unknown]";
    let function = match (named, object) {
        (true, _) => Some(names.get(without_offset(symbol))),
        (false, Some(object)) if object != "[unknown]" => Some(names.get(&format!("[{object}]"))),
        (false, _) => None,
    };
    Some((CodeLocation { address, function }, named))
}

/// Returns `memcpy` for `memcpy+0x1f`. The offset may be nonsense (perf prints
/// `memcpy@plt+0xffffffffff22f000`), so it is not read.
fn without_offset(symbol: &str) -> &str {
    match symbol.rsplit_once("+0x") {
        Some((name, offset)) if !name.is_empty() && address(offset).is_some() => name,
        _ => symbol,
    }
}

/// Returns a number of hexadecimal digits alone.
fn address(word: &str) -> Option<u64> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !word.bytes().all(is_hex) {
        return None;
    }
    u64::from_str_radix(word, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{NameInterner, TraceError, parse_branch};
    use crate::branch::{BranchKind, FlowEdge};

    #[test]
    fn branch_kinds_and_flags_parse() {
        let known = [
            ("call", FlowEdge::Inside, BranchKind::Call, false),
            ("jcc (x)", FlowEdge::Inside, BranchKind::Jump, true),
            (
                "jcc/miss,not_taken/ ()",
                FlowEdge::Inside,
                BranchKind::Jump,
                false,
            ),
            ("tr strt", FlowEdge::Begin, BranchKind::Unknown, false),
            ("tr strt jmp", FlowEdge::Begin, BranchKind::Jump, false),
            ("tr end  syscall", FlowEdge::End, BranchKind::Syscall, false),
            (
                "tr strt tr end",
                FlowEdge::Inside,
                BranchKind::Unknown,
                false,
            ),
            ("hw int", FlowEdge::Inside, BranchKind::Interrupt, false),
            ("int", FlowEdge::Inside, BranchKind::Jump, false),
            (
                "tx abrt",
                FlowEdge::Inside,
                BranchKind::TransactionAbort,
                false,
            ),
        ];
        for (words, edge, kind, in_transaction) in known {
            let text = format!("  {words}   40 f+0x1 (a b.so) =>  41 operator ()+0x2 (c.so)");
            let branch = parse_branch(&text, &mut NameInterner::default()).unwrap();
            assert_eq!((branch.edge, branch.kind), (edge, kind), "{words}");
            assert_eq!(branch.in_transaction, in_transaction, "{words}");
            assert_eq!(branch.to.function.as_deref(), Some("operator ()"));
        }
    }

    #[test]
    fn code_without_symbols_is_named_by_its_file() {
        let mut names = NameInterner::default();
        let to = |text: &str, names: &mut NameInterner| {
            let text = format!("tr strt  0 [unknown] ([unknown]) => {text}");
            parse_branch(&text, names).unwrap().to.function
        };
        assert_eq!(
            to("7f [unknown] (/lib/ld.so)", &mut names).as_deref(),
            Some("[/lib/ld.so]")
        );
        assert_eq!(to("7f [unknown] ([unknown])", &mut names), None);
        let odd = "7f memcpy@plt+0xffffffffff22f000 (a.so)";
        assert_eq!(to(odd, &mut names).as_deref(), Some("memcpy@plt"));
    }

    #[test]
    fn errors_parse_with_and_without_a_time() {
        let line = " instruction trace error type 1 time 5.000000007 cpu -1 pid 3 tid 4 ip 0x7f code 7: Overflow packet (a.so)";
        let error = TraceError::parse(line).unwrap();
        assert_eq!((error.time_ns, error.cpu), (Some(5_000_000_007), None));
        assert_eq!((error.pid, error.tid), (Some(3), Some(4)));
        assert_eq!(error.message, "Overflow packet (a.so)");
        let line = " instruction trace error type 1 cpu 2 pid 3 tid 4 ip 0 code 8: Lost trace data";
        assert_eq!(TraceError::parse(line).unwrap().time_ns, None);
        assert_eq!(
            TraceError::parse(" instruction trace error type 1 cpu"),
            None
        );
    }
}
