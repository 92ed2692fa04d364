//! The head of a `perf script` line: `[COMM] PID[/TID] [[CPU]] SECONDS.FRACTION: [PERIOD] EVENT: …`.
//! Which of its parts are there depends on `perf script -F`.

use crate::text::{seconds_ns, split_word};

/// The first fields of a line of `perf script`: thread, CPU, time and event; a field that is not printed is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventHeader<'a> {
    pub(crate) comm: Option<&'a str>,
    pub(crate) pid: Option<u32>,
    pub(crate) tid: Option<u32>,
    pub(crate) cpu: Option<u16>,
    pub(crate) time_ns: u64,
    /// Name of the event, with its modifiers (`branches:uH`).
    pub(crate) event: &'a str,
    /// The rest of the line.
    pub(crate) rest: &'a str,
}

impl<'a> EventHeader<'a> {
    /// Takes a line's head apart; `None` if it has none.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let (before, time_ns, after) = split_time(line)?;
        let (comm, pid, tid, cpu) = parse_thread(before)?;
        let (event, rest) = parse_event(after)?;
        Some(Self {
            comm,
            pid,
            tid,
            cpu,
            time_ns,
            event,
            rest,
        })
    }

    /// Returns the name of the event without PMU, terms and modifiers.
    pub(crate) fn event_name(&self) -> &'a str {
        let name = self.event.split(['/', ':']).next().unwrap_or_default();
        match name {
            // The PMU comes first: `intel_pt//`, `cpu/cycles/`.
            "cpu" | "intel_pt" => self.event.split('/').nth(1).unwrap_or(name),
            _ => name,
        }
    }

    /// Returns whether the event's modifiers leave user code out (`branches:k`).
    pub(crate) fn kernel_only(&self) -> bool {
        let modifiers = self.event.rsplit([':', '/']).next().unwrap_or_default();
        self.event.len() > modifiers.len() && modifiers.contains('k') && !modifiers.contains('u')
    }
}

/// Splits a line at its time: the first word of digits, a point, digits and a colon.
fn split_time(line: &str) -> Option<(&str, u64, &str)> {
    let mut from = 0;
    while let Some(found) = line[from..].find(':') {
        let colon = from + found;
        let begin = last_word(&line[..colon]);
        if let Some(time_ns) = seconds_ns(&line[begin..colon]) {
            return Some((&line[..begin], time_ns, &line[colon + 1..]));
        }
        from = colon + 1;
    }
    None
}

type ThreadFields<'a> = (Option<&'a str>, Option<u32>, Option<u32>, Option<u16>);

/// Reads `COMM PID/TID [CPU]`; all but the thread are optional, and a name may have spaces.
fn parse_thread(text: &str) -> Option<ThreadFields<'_>> {
    let mut text = text.trim_end();
    let mut cpu = None;
    if let Some(inside) = text.strip_suffix(']') {
        let open = inside.rfind('[')?;
        cpu = Some(inside[open + 1..].trim().parse().ok()?);
        text = inside[..open].trim_end();
    }
    let begin = last_word(text);
    let (pid, tid) = match text[begin..].split_once('/') {
        Some((pid, tid)) => (number(pid)?, number(tid)?),
        None => (None, number(&text[begin..])?),
    };
    let comm = Some(text[..begin].trim()).filter(|comm| !comm.is_empty());
    Some((comm, pid, tid, cpu))
}

/// Returns a process or thread id. perf writes -1 for one that it does not know.
fn number(text: &str) -> Option<Option<u32>> {
    match text {
        "-1" | "?" => Some(None),
        _ => text.parse().ok().map(Some),
    }
}

/// Returns the event of `[PERIOD] EVENT:`, and the rest of the line.
fn parse_event(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let (first, rest) = split_word(text);
    let is_period = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let (event, rest) = if is_period {
        split_word(rest)
    } else {
        (first, rest)
    };
    let name = event.strip_suffix(':').filter(|name| !name.is_empty())?;
    Some((name, rest))
}

/// Returns the index at which the last word of a text begins.
fn last_word(text: &str) -> usize {
    let last = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    text.len() - last.len()
}

#[cfg(test)]
mod tests {
    use super::EventHeader;

    #[test]
    fn headers_of_several_field_lists_parse() {
        let line =
            "364691/364691 62709.735347701:      1   branches:uH:   jmp  40bb19 f+0x1 (a.so)";
        let header = EventHeader::parse(line).unwrap();
        assert_eq!((header.pid, header.tid), (Some(364_691), Some(364_691)));
        assert_eq!(header.time_ns, 62_709_735_347_701);
        assert_eq!(header.event_name(), "branches");
        assert!(!header.kernel_only());
        assert!(header.rest.starts_with("   jmp"));

        let line = "Web Content 12/14 [003]  10.5: sched:sched_switch: prev_comm=a";
        let header = EventHeader::parse(line).unwrap();
        assert_eq!(header.comm, Some("Web Content"));
        assert_eq!((header.tid, header.cpu), (Some(14), Some(3)));
        assert_eq!(
            (header.time_ns, header.event),
            (10_500_000_000, "sched:sched_switch")
        );

        let line = "  -1/-1  1.000000001: 1 branches:k: tr strt";
        let header = EventHeader::parse(line).unwrap();
        assert_eq!((header.pid, header.tid), (None, None));
        assert!(header.kernel_only());
    }
}
