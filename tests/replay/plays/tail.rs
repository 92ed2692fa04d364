//! Why slow messages are slow: what a test plants is the first cause of the messages that it hits.

use serde_json::{Value, json};
use table::tables::ReceivedMessage;

use crate::play::{Judge, Outcome, Play};
use crate::shrink::{ACTIVITY, BLOCKED, LeftOut};
use testbed::report::{ask, groups, number};
use testbed::{compile_c, record_command};

pub fn plays() -> Vec<Play> {
    let plays: [(&'static str, Judge); 10] = [
        ("none", |it| is_quiet(it)),
        ("neighbour", |it| {
            is_named(it, COVERED, |cause| cause["rule"] == "cpu_contention")
        }),
        ("queue", |it| {
            is_named(it, COVERED, |cause| {
                cause["rule"] == "head_of_line_blocking"
            })
        }),
        ("call", |it| {
            is_named(it, COVERED, |cause| cause["rule"] == "slow_function")
        }),
        ("lock", |it| {
            is_named(it, COVERED, |cause| cause["rule"] == "blocked_in_call")
        }),
        ("compute", |it| {
            is_named(it, COVERED, |cause| cause["what"] == "the program itself")
        }),
        ("faults", |it| {
            is_named(it, COVERED_WITHIN, |cause| {
                cause["rule"] == "slow_function" && cause["category"] == "paging"
            });
        }),
        // on the reader's own CPU
        ("flood", |it| {
            is_named(it, COVERED, |cause| {
                cause["rule"] == "softirq_delay" && cause["category"] == "receive_processing"
            });
        }),
        ("crowd", |it| {
            is_named(it, COVERED, |cause| {
                cause["rule"] == "receive_interference" && cause["what"] == "messages for crowd"
            });
        }),
        ("moves", |it| {
            is_named(it, COVERED, |cause| cause["rule"] == "migration")
        }),
    ];
    let play = |(kind, judge)| Play {
        name: format!("tail::{kind}"),
        record: Box::new(move || record(kind)),
        judge,
        tables: if kind == "lock" { BLOCKED } else { ACTIVITY },
        leaves_out: Some(messages_not_judged),
    };
    plays.into_iter().map(play).collect()
}

/// Of the messages hit, so many must have the planted cause first, %.
const RIGHT_PERCENT: usize = 95;
/// Size of the reader's messages; those of others are shorter.
const BYTES: u32 = 100;
/// Messages of a play; one in 29 is hit.
const ROUNDS: &str = "-DROUNDS=907";
/// Pages that the reader of `faults` writes to: each is a few spans of what its CPU did.
const PAGES: &str = "-DPAGES=149";
/// How long datagrams for others are sent in `crowd`, ns: each is a message.
const CROWD_NS: &str = "-DCROWD_NS=30000";
/// Messages hit that a play needs.
const LEAST: usize = 23;
/// Share that the causes explain of what each message hit took longer, and of the median one (NSight, section 6.3).
const COVERED: [f64; 2] = [0.69, 0.96];
/// The same where the cause lies within the program's own time: that is no cause beside one that explains 80 % of what it
/// took longer (`--explained`), and the rest remains unexplained.
const COVERED_WITHIN: [f64; 2] = [0.69, 0.8];

/// A message that took so little longer than others, ns, was not hit after all: stamps of its start and end may be so far off
/// (`EDGE_NS` of the ledger).
const STAMPS_NS: f64 = 2_000.0;

/// Records a reader with messages that are slow for a reason. The truth is when each slow receive call began and ended.
fn record(kind: &str) -> Result<Outcome, String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        return Err("it needs two CPUs".to_owned());
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let source = include_str!("../programs/slow_messages.c");
    let options = [ROUNDS, PAGES, CROWD_NS];
    let binary = compile_c(scratch.path(), "slow_messages", source, &options);
    let options = ["--detail", "messages", "--keep", "p75,sample=29"];
    let (report, calls) = record_command(scratch, &options, &[&binary, kind]);
    report.whole_but_for_the_kernel()?;
    Ok(Outcome {
        report,
        truth: json!({ "slow_calls": calls }),
    })
}

/// All but the messages hit, and those that say what is ordinary.
fn messages_not_judged(outcome: &Outcome) -> LeftOut {
    let (group, hit) = (group(outcome), messages_hit(outcome));
    let mut judged: Vec<_> = hit
        .iter()
        .map(|(id, call)| {
            (
                !is_known(&group, id),
                number(call, "/begin_ns"),
                number(call, "/end_ns"),
            )
        })
        .collect();
    // those first for which the activity of their CPUs was kept
    judged.sort_unstable();
    LeftOut {
        judged: judged
            .into_iter()
            .map(|(_, begin_ns, end_ns)| (begin_ns, end_ns))
            .collect(),
        ..LeftOut::nothing()
    }
}

/// A message hit: whether its first cause is the one planted, how much of what it took longer is explained, and
/// its report.
struct Hit {
    right: bool,
    covered: f64,
    causes: Value,
}

/// Returns the report of the reader's messages.
fn group(outcome: &Outcome) -> Value {
    let report = ask(outcome.report.path(), "--tail p0");
    let group = groups(&report)
        .iter()
        .find(|group| group["application"] == "slow_messages" && group["direction"] == "received");
    group.expect("the reader's").clone()
}

/// The messages hit, by their names in the report, with the calls that took them.
fn messages_hit(outcome: &Outcome) -> Vec<(String, &Value)> {
    let calls = outcome.truth["slow_calls"].as_array().into_iter().flatten();
    let calls: Vec<&Value> = calls.collect();
    let received: Vec<ReceivedMessage> = outcome.report.rows();
    let hit = |message: &ReceivedMessage| {
        let end_ns = message.done_ns;
        let is_within = |call: &&&Value| {
            (number(call, "/begin_ns")..=number(call, "/end_ns")).contains(&end_ns)
        };
        let call = calls.iter().find(is_within);
        let call = call.filter(|_| message.bytes == BYTES)?;
        Some((format!("{}:r{}", message.conn, message.offset_end), *call))
    };
    received.iter().filter_map(hit).collect()
}

/// Returns whether the recording has what the CPUs of this message did.
fn is_known(group: &Value, id: &str) -> bool {
    let mut explained = group["explained"].as_array().into_iter().flatten();
    explained.any(|it| it["id"] == id && it["deviation_ns"].as_f64() > Some(STAMPS_NS))
}

/// The messages hit for which the recording has what their CPUs did. `is_planted`: whether a cause is the one planted.
fn hits(outcome: &Outcome, is_planted: fn(&Value) -> bool) -> Vec<Hit> {
    let calls = outcome.truth["slow_calls"].as_array().expect("calls");
    let hit = messages_hit(outcome);
    assert_eq!(hit.len(), calls.len());
    let group = group(outcome);
    let explained = group["explained"].as_array().expect("messages");
    let of_hit = explained
        .iter()
        .filter(|it| hit.iter().any(|(id, _)| it["id"] == id.as_str()))
        .filter(|it| it["deviation_ns"].as_f64() > Some(STAMPS_NS));
    let judged = of_hit.map(|it| {
        let causes = it["causes"].as_array().expect("causes");
        let named = causes.iter().map(|cause| {
            let number = cause["cause"].as_u64().expect("a cause") as usize;
            (&group["causes"][number], &cause["ns"])
        });
        let causes: Vec<String> = named
            .clone()
            .map(|(cause, ns)| format!("{} {}: {ns}", cause["rule"], cause["what"]))
            .collect();
        Hit {
            right: named
                .clone()
                .next()
                .is_some_and(|(cause, _)| is_planted(cause)),
            covered: it["covered"].as_f64().expect("a share"),
            causes: serde_json::json!([it["deviation_ns"], causes]),
        }
    });
    judged.collect()
}

/// The cause that was planted is the first of the messages hit, and these are explained.
fn is_named(outcome: &Outcome, least: [f64; 2], is_planted: fn(&Value) -> bool) {
    let mut hits = hits(outcome, is_planted);
    let known = hits.len();
    assert!(known >= LEAST, "of {known} it was kept what their CPUs did");
    hits.sort_by(|a, b| a.covered.total_cmp(&b.covered));
    let right = hits.iter().filter(|hit| hit.right).count();
    let covered = [0, known / 2].map(|at| hits[at].covered);
    let list = |is: &dyn Fn(&Hit) -> bool| {
        let hits = hits.iter().filter(|hit| is(hit));
        hits.map(|hit| hit.causes.to_string())
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(
        right * 100 >= known * RIGHT_PERCENT,
        "{}",
        list(&|hit| !hit.right)
    );
    assert!(
        covered[0] >= least[0] && covered[1] >= least[1],
        "{}",
        list(&|hit| hit.covered < least[1])
    );
}

/// A reader that nothing delays has no finding.
fn is_quiet(outcome: &Outcome) {
    let list = |name: &str| outcome.report.json[name].as_array().expect("a list");
    let all = || list("findings").iter().chain(list("slow_messages"));
    let is_judged = all().any(|it| it["application"] == "slow_messages");
    assert!(is_judged, "{}", outcome.report.json);
    let serious: Vec<_> = all().filter(|it| it["severity"] != "info").collect();
    assert!(serious.is_empty(), "{serious:#?}");
}
