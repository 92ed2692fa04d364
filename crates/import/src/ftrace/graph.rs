//! Lines of the tracer `function_graph`: `| f() {`, `| f();`, `| } /* f */`.

use table::{ActivityKind, ActivitySource};

use table::spans::{CpuTimeline, OpenActivity};

/// A call, a return, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphEvent<'a> {
    Call(&'a str),
    /// With its function where the text shows it.
    Return(Option<&'a str>),
    /// A function that called no other, with its duration in nanoseconds.
    Leaf(&'a str, u64),
    InterruptBegins,
    InterruptEnds,
}

impl GraphEvent<'_> {
    /// Adds the event to the timeline of its CPU.
    pub(crate) fn apply(self, core: &mut CpuTimeline, time_ns: u64, resolution_ns: u64) {
        let activity = |kind, name: Option<&str>| OpenActivity {
            kind,
            name: name.map(Into::into),
            source: ActivitySource::FunctionGraph,
        };
        match self {
            Self::Call(name) => core.begin(time_ns, activity(ActivityKind::Function, Some(name))),
            Self::Return(name) => core.end(time_ns, &activity(ActivityKind::Function, name)),
            Self::Leaf(name, duration_ns) => {
                // The start was rounded down; so is the end, or it could lie after the caller's.
                let end_ns = time_ns.saturating_add(duration_ns);
                let end_ns = end_ns - end_ns % resolution_ns;
                let function = activity(ActivityKind::Function, Some(name));
                core.whole(time_ns, end_ns, &function);
            }
            Self::InterruptBegins => core.begin(time_ns, activity(ActivityKind::Irq, None)),
            Self::InterruptEnds => core.end(time_ns, &activity(ActivityKind::Irq, None)),
        }
    }
}

/// Reads a part of a function graph: `[DURATION us] | DRAWING`.
pub(crate) fn parse(text: &str) -> Option<GraphEvent<'_>> {
    let (duration, drawing) = text.split_once('|')?;
    let duration = duration.trim();
    match duration {
        "==========>" => return Some(GraphEvent::InterruptBegins),
        "<==========" => return Some(GraphEvent::InterruptEnds),
        _ => {}
    }
    let drawing = drawing.trim();
    if let Some(rest) = drawing.strip_prefix('}') {
        let name = rest.split_once("/* ").map(|(_, name)| name);
        let name = name.and_then(|name| name.split([' ', '*']).next());
        return Some(GraphEvent::Return(name.filter(|name| !name.is_empty())));
    }
    if let Some(call) = drawing.strip_suffix('{') {
        return Some(GraphEvent::Call(parse_function(call)?));
    }
    let end = drawing.rfind(';')?;
    Some(GraphEvent::Leaf(
        parse_function(&drawing[..end])?,
        duration_ns(duration)?,
    ))
}

/// Returns the function of `f()`, `f [module]()` or `f(args)`.
fn parse_function(text: &str) -> Option<&str> {
    let name = text.split(['(', '[']).next()?.trim();
    Some(name).filter(|name| !name.is_empty() && !name.contains(' '))
}

/// Returns the duration of a text such as `0.123 us`, ns; a mark before it (`+ ! # * @ $`) is
/// skipped. Long ones have fewer decimals, or none (`trace_print_graph_duration`): the others are
/// not known, and count as zero.
fn duration_ns(text: &str) -> Option<u64> {
    let text = text
        .trim_start_matches(['+', '!', '#', '*', '@', '$'])
        .trim();
    let text = text.strip_suffix("us")?.trim_end();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if fraction.len() > 3 || !digits(fraction) || !digits(whole) {
        return None;
    }
    let whole_ns = whole.parse::<u64>().ok()?.checked_mul(1_000)?;
    whole_ns.checked_add(format!("{fraction:0<3}").parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::{GraphEvent, parse};

    #[test]
    fn function_graph_lines_parse() {
        let known = [
            (
                "  0.123 us    |    kfree();",
                GraphEvent::Leaf("kfree", 123),
            ),
            (
                " ! 120.001 us  |    f [mod]();",
                GraphEvent::Leaf("f", 120_001),
            ),
            (
                " @ 54321.12 us |  vfs_read();",
                GraphEvent::Leaf("vfs_read", 54_321_120),
            ),
            (
                " $ 13015300 us |  vfs_read();",
                GraphEvent::Leaf("vfs_read", 13_015_300_000),
            ),
            (
                "                |  do_softirq() {",
                GraphEvent::Call("do_softirq"),
            ),
            (" + 10.5 us | }", GraphEvent::Return(None)),
            (
                "   1.0 us   |  } /* tcp_v4_rcv */",
                GraphEvent::Return(Some("tcp_v4_rcv")),
            ),
            (
                "   1.0 us   |  } /* f ret=0x1 */",
                GraphEvent::Return(Some("f")),
            ),
            (" ==========> |", GraphEvent::InterruptBegins),
            (" <========== |", GraphEvent::InterruptEnds),
        ];
        for (text, graph) in known {
            assert_eq!(parse(text), Some(graph), "{text}");
        }
        for text in [
            "",
            "|",
            "| ;",
            "f();",
            "x us | f();",
            ".5 us | f();",
            "1. us | f();",
            "1.2345 us | f();",
            "| /* a comment */",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
