//! One line of ftrace's text, taken apart: CPU, thread, time and event.

use crate::text::{seconds_ns, split_word};

/// A thread as a line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventThread<'a> {
    pub(crate) comm: &'a str,
    pub(crate) tid: u32,
    pub(crate) pid: Option<u32>,
}

/// An event of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceEvent<'a> {
    pub(crate) cpu: Option<u16>,
    /// The thread that had the CPU, whoever made the event.
    pub(crate) thread: Option<EventThread<'a>>,
    pub(crate) time_ns: u64,
    /// Unit of the last digit of the time.
    pub(crate) resolution_ns: u64,
    /// Name of the event, without its system.
    pub(crate) name: &'a str,
    /// The event's fields.
    pub(crate) body: &'a str,
}

impl<'a> TraceEvent<'a> {
    /// Reads an event line: `COMM-TID [(TGID)] [CPU] [FLAGS] SECONDS.FRACTION: NAME: BODY`.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let (before, cpu, after) = split_cpu(line)?;
        let (first, rest) = split_word(after);
        let (time, rest) = match first.ends_with(':') {
            true => (first, rest),
            false => split_word(rest),
        };
        let time = time.strip_suffix(':')?;
        let (name, body) = name_and_body(rest);
        Some(Self {
            cpu: Some(cpu),
            thread: Some(thread(before)?),
            time_ns: seconds_ns(time)?,
            resolution_ns: resolution_ns(time),
            name,
            body,
        })
    }
}

/// Splits at the CPU's number, the first that is in brackets alone.
fn split_cpu(line: &str) -> Option<(&str, u16, &str)> {
    let mut from = 0;
    while let Some(found) = line[from..].find('[') {
        let open = from + found;
        let close = open + line[open..].find(']')?;
        let inside = &line[open + 1..close];
        if inside.len() >= 3 && inside.bytes().all(|byte| byte.is_ascii_digit()) {
            let cpu = inside.parse().ok()?;
            return Some((line[..open].trim(), cpu, &line[close + 1..]));
        }
        from = open + 1;
    }
    None
}

/// Parses `COMM-TID`, with the process behind it in parentheses if the option `record-tgid` was set.
pub(crate) fn thread(text: &str) -> Option<EventThread<'_>> {
    let text = text.trim();
    let (text, pid) = match text
        .strip_suffix(')')
        .and_then(|text| text.rsplit_once('('))
    {
        Some((before, inside)) => (before.trim_end(), inside.trim().parse().ok()),
        None => (text, None),
    };
    let (comm, tid) = text.rsplit_once('-')?;
    let tid = tid.parse().ok()?;
    Some(EventThread { comm, tid, pid })
}

/// Returns the resolution of a time: 1000 ns for six digits after the point, 1 ns for nine.
pub(crate) fn resolution_ns(time: &str) -> u64 {
    let digits = time.split_once('.').map_or(0, |(_, digits)| digits.len());
    10_u64.pow(9_u32.saturating_sub(digits as u32))
}

/// Splits `NAME: BODY` of an event. The events of single system calls are `sys_NAME(…)` and
/// `sys_NAME -> …` instead.
fn name_and_body(text: &str) -> (&str, &str) {
    let text = text.trim();
    match text.split_once(':') {
        Some((name, body)) if !name.contains([' ', '(']) => (name, body.trim_start()),
        _ => ("", text),
    }
}

#[cfg(test)]
mod tests {
    use super::TraceEvent;

    #[test]
    fn trace_file_and_trace_cmd_lines_parse() {
        let line = "       Web Content-12    (  10) [003] d.h2.  77.000123: irq_handler_entry: irq=9 name=eth0";
        let event = TraceEvent::parse(line).unwrap();
        let thread = event.thread.unwrap();
        assert_eq!(
            (thread.comm, thread.tid, thread.pid),
            ("Web Content", 12, Some(10))
        );
        assert_eq!((event.cpu, event.time_ns), (Some(3), 77_000_123_000));
        assert_eq!(
            (event.name, event.body),
            ("irq_handler_entry", "irq=9 name=eth0")
        );
        assert_eq!(event.resolution_ns, 1_000);

        let line = "          <idle>-0     [001]   5.000000007: sched_switch:         swapper/1:0 [120] R ==> a-b:7 [120]";
        let event = TraceEvent::parse(line).unwrap();
        assert_eq!(
            (event.cpu, event.time_ns, event.resolution_ns),
            (Some(1), 5_000_000_007, 1)
        );
        assert_eq!(event.body, "swapper/1:0 [120] R ==> a-b:7 [120]");

        let line = "   a-7     [001] .....   5.000001: sys_read(fd: 3, buf: 7f, count: 10)";
        let event = TraceEvent::parse(line).unwrap();
        assert_eq!(
            (event.name, event.body),
            ("", "sys_read(fd: 3, buf: 7f, count: 10)")
        );
        assert_eq!(TraceEvent::parse("# tracer: nop"), None);
    }
}
