//! A real capture against the output of perf itself: every branch and error, its time on perf's
//! clock, its thread and its addresses. perf is the only other decoder that reads such captures, so that nothing else
//! can show that this one is right.

#[path = "../../tests/data/mod.rs"]
mod data;

use super::file::PerfData;
use super::sideband::Sideband;
use super::trace;
use crate::branch::{BranchKind, FlowEdge};
use crate::intel_pt::{FlowEvent, StopReason};
use crate::perf_script::EventHeader;
use crate::perf_script::line::{NameInterner, TraceError, parse_branch};
use crate::tally::Tally;

/// A branch or, without addresses to, an error: time, process, thread, kind, from, to.
type Event = (u64, Option<u32>, Option<u32>, String, u64, u64);

/// Returns edge and kind of a branch as text.
fn edge_name(edge: FlowEdge, kind: BranchKind) -> String {
    format!("{edge:?} {kind:?}")
}

/// Returns the branches and errors that perf printed.
fn perf_branches(text: &str) -> (Vec<Event>, Vec<Event>) {
    let (mut branches, mut errors) = (Vec::new(), Vec::new());
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    for line in text.lines() {
        if let Some(error) = TraceError::parse(line) {
            let (_, ip) = line.split_once(" ip ").expect("an address");
            let ip = ip.split(' ').next().and_then(hex).expect("an address");
            let time_ns = error.time_ns.expect("a time");
            let message = error.message.to_owned();
            errors.push((time_ns, error.pid, error.tid, message, ip, 0));
            continue;
        }
        let header = EventHeader::parse(line).expect("an event");
        if header.event_name() == "branches" {
            let flow = parse_branch(header.rest, &mut NameInterner::default()).expect("a branch");
            // Before the arrow: kind, address, symbol, file.
            let (from, _) = header.rest.split_once(" => ").expect("an arrow");
            let from = from.split_whitespace().find_map(|word| match word {
                "call" | "return" => None,
                word => hex(word),
            });
            let kind = edge_name(flow.edge, flow.kind);
            let from = from.expect("an address");
            branches.push((
                header.time_ns,
                header.pid,
                header.tid,
                kind,
                from,
                flow.to.address,
            ));
        }
    }
    (branches, errors)
}

/// Returns the branches and errors that this crate decodes from a file.
fn decoded_branches(bytes: &[u8]) -> (Vec<Event>, Vec<Event>) {
    let file = PerfData::parse(bytes).expect("perf.data");
    let sideband = Sideband::read(&file, &mut Tally::default());
    let (mut branches, mut errors) = (Vec::new(), Vec::new());
    trace::decode(&file, &sideband, |events| {
        for event in events {
            let (time_ns, thread) = (event.time_ns, event.thread);
            match event.flow {
                FlowEvent::Stop { why, at } => {
                    let message = why.message().to_owned();
                    errors.push((time_ns, thread.pid, thread.tid, message, at, 0));
                }
                FlowEvent::Branch {
                    kind,
                    edge,
                    from,
                    to,
                } => {
                    let kind = edge_name(edge, kind);
                    branches.push((time_ns, thread.pid, thread.tid, kind, from, to));
                }
            }
        }
    })
    .expect("an Intel PT trace");
    (branches, errors)
}

#[test]
fn a_real_capture_decodes_as_perf_decodes_it() {
    let (Some(bytes), Some(text)) = (
        data::sample("quipper/perf.data.intel_pt-4.14"),
        data::sample("quipper/derived/perf-script-6.1-bep.txt"),
    ) else {
        return;
    };
    let text = String::from_utf8(text).expect("text");
    let (mut branches, mut errors) = perf_branches(&text);
    let (mut our_branches, our_errors) = decoded_branches(&bytes);
    assert_eq!((branches.len(), errors.len()), (619, 114));
    // perf merges CPUs by time; here they come one after another.
    branches.sort();
    our_branches.sort();
    println!(
        "ours {} branches, {} errors",
        our_branches.len(),
        our_errors.len()
    );
    let mut differ = 0;
    for (theirs, ours) in branches.iter().zip(&our_branches) {
        if theirs != ours && differ < 8 {
            differ += 1;
            println!("theirs {theirs:x?}\nours   {ours:x?}");
        }
    }
    assert_eq!(our_branches, branches);
    // perf reports missing code once a file; this decoder every time.
    for error in &our_errors {
        assert_eq!(error.3, StopReason::NoCode.message());
    }
    let mut left = our_errors.clone();
    errors.retain(|error| match left.iter().position(|ours| ours == error) {
        Some(at) => {
            left.swap_remove(at);
            false
        }
        None => true,
    });
    assert_eq!(errors, []);
}
