//! Faults that the lab plants are named, and nothing beside them; of their healthy twins and of those
//! that are fixed as the finding advises, nothing. One instance each; `make accuracy` plays many.

use std::collections::HashSet;

use lab::fault::scene::ClaimSubject;
use lab::fault::{FAULTS, Fault, Score};
use serde_json::Value;

use crate::play::{Outcome, Play};
use crate::shrink::{CAUSES, CONNECTIONS, DATAGRAMS, DROPPED, LeftOut};
use testbed::report::{Report, number};
use testbed::{finish, whylat};

pub fn plays() -> Vec<Play> {
    let mut plays = Vec::new();
    let kept = FAULTS
        .iter()
        .filter(|fault| !NOT_KEPT.contains(&fault.name));
    for fault in kept {
        for congctl in fault.congctls {
            for variant in ["faulty", "healthy", "mended"] {
                if variant != "mended" || fault.mendable {
                    plays.push(play(fault, variant, congctl));
                }
            }
        }
    }
    plays
}

fn play(fault: &'static Fault, variant: &'static str, congctl: &'static str) -> Play {
    Play {
        name: format!("faults::{congctl}::{}::{variant}", fault.name),
        record: Box::new(move || record(fault, variant, congctl)),
        judge: is_right,
        tables: tables_of(fault),
        leaves_out: Some(if is_cause(fault) {
            processes_of_lab
        } else {
            connections_beyond_few
        }),
    }
}

/// Returns the tables by which a fault is judged.
fn tables_of(fault: &Fault) -> &'static [&'static str] {
    let claim = (fault.claim)("cubic").map(|claim| claim.of);
    match claim {
        _ if !is_cause(fault) => CONNECTIONS,
        Some(ClaimSubject::Service | ClaimSubject::Process) => CAUSES,
        Some(ClaimSubject::Datagrams) => DATAGRAMS,
        _ => DROPPED,
    }
}

/// Returns whether it is a fault of requests or programs.
fn is_cause(fault: &Fault) -> bool {
    fault.congctls.len() == 1
}

/// The processes that play: the wire has many waits, and no part in a finding.
fn processes_of_lab(outcome: &Outcome) -> LeftOut {
    let pids = ["/pid", "/machine/pid"].map(|name| number(&outcome.truth, name));
    let pids = pids.into_iter().filter_map(|pid| u32::try_from(pid).ok());
    LeftOut {
        processes: pids.collect(),
        ..LeftOut::nothing()
    }
}

/// Plays a variant of a fault under a recording, as a user would.
fn record(fault: &Fault, variant: &str, congctl: &str) -> Result<Outcome, String> {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let truth = scratch.path().join("truth.json");
    let mut command = whylat("lab fault");
    command.args([fault.name, "--variant", variant, "--congctl", congctl]);
    command.arg("--truth").arg(&truth).arg("--record");
    command.arg(scratch.path().join("r.whylat"));
    finish(&mut command).assert_status(0);
    let truth = std::fs::read_to_string(truth).expect("the truth");
    let truth = serde_json::from_str(&truth).expect("JSON");
    came_about(fault, &truth)?;
    let report = Report::from_scratch(scratch);
    let truth = scored_part(truth);
    Ok(Outcome { report, truth })
}

/// Without what the ends know of their calls: the score is of connections and requests.
fn scored_part(mut truth: Value) -> Value {
    const SCORED: &[&str] = &[
        "cookie",
        "local",
        "remote",
        "opened_ns",
        "closed_ns",
        "thread",
    ];
    let claims = truth["expected"].as_array_mut().into_iter().flatten();
    for connection in claims.flat_map(|claim| list_mut(claim, "connections")) {
        connection.retain(|name, _| name == "cookie");
    }
    let pairs = truth["roles"].as_array_mut().into_iter().flatten();
    let ends = pairs.flat_map(|pair| {
        let pair = pair.as_object_mut().expect("a pair");
        pair.values_mut().flat_map(|ends| match ends {
            Value::Array(clients) => clients.iter_mut().collect(),
            end => vec![end],
        })
    });
    for end in ends.filter(|end| end.is_object()) {
        for connection in list_mut(end, "connections") {
            connection.retain(|name, _| SCORED.contains(&name.as_str()));
        }
        let end = end.as_object_mut().expect("an end");
        const LISTS: &[&str] = &["also_true", "connections"];
        end.retain(|name, value| LISTS.contains(&name.as_str()) || !value.is_array());
    }
    truth
}

/// The objects in a list.
fn list_mut<'a>(
    of: &'a mut Value,
    name: &str,
) -> impl Iterator<Item = &'a mut serde_json::Map<String, Value>> {
    let list = of.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Those beyond the first few of each program, and their other ends: they are as the first are.
fn connections_beyond_few(outcome: &Outcome) -> LeftOut {
    const FEW: usize = 10;
    let list = |of: &'_ Value, name: &str| of[name].as_array().cloned().unwrap_or_default();
    let mut sockets = HashSet::new();
    for pair in list(&outcome.truth, "roles") {
        let clients = list(&pair, "clients").into_iter();
        let beyond = clients.flat_map(|client| list(&client, "connections").into_iter().skip(FEW));
        let beyond: Vec<Value> = beyond.collect();
        let is_other_end =
            |end: &Value| beyond.iter().any(|beyond| beyond["local"] == end["remote"]);
        let mut others = list(&pair["server"], "connections");
        others.retain(is_other_end);
        sockets.extend(
            beyond
                .iter()
                .chain(&others)
                .map(|one| number(one, "/cookie")),
        );
    }
    LeftOut {
        sockets,
        ..LeftOut::nothing()
    }
}

/// Longest part of a play that a CPU may have been stalled: a fifth of what would be a warning.
const MAX_STALL: f64 = 0.01;

/// Faults without a kept recording: it would be too large, also without what a rule reads, or is judged rightly only on a machine
/// that does nothing else.
/// `make accuracy` plays them.
const NOT_KEPT: &[&str] = &[
    "accept_failed",
    "blocked_event_loop",
    "busy_workers",
    "computes",
    "connection_churn",
    "cork_delay",
    "cpu_quota",
    "disk_wait",
    "dns_slow",
    "lock_wait",
    "memory_stall",
    "output_blocked",
    "packet_dropped_here",
    "path_mtu",
    "path_queue",
    "process_pause",
    "reset_by_peer",
    "reset_by_us",
    "serial_round_trips",
    "slow_start_after_idle",
    "small_io",
    "timer_wait",
    "uneven_workers",
];

/// Whether it was planted, and nothing else beside it, by the account of those who planted it.
fn came_about(fault: &Fault, truth: &Value) -> Result<(), String> {
    let still = stall_share(truth);
    if still >= MAX_STALL {
        return Err(format!(
            "a CPU was stalled {:.1} % of the time",
            still * 100.0
        ));
    }
    let lost = number(&truth["wire"], "/a_to_b/dropped/queue/packets");
    if truth["lossless"] == true && lost > 0 {
        return Err(format!(
            "{lost} packets overflowed a queue where none are to be lost"
        ));
    }
    let congctl = truth["congctl"].as_str().expect("a name");
    let wanted = truth["variant"] == "faulty" && (fault.claim)(congctl).is_some();
    let score = Score::new(truth, &Value::Null, &[]);
    match wanted && score.planted.is_empty() {
        true => Err("no connection has the fault".to_owned()),
        false => Ok(()),
    }
}

/// The part of the play for which the CPU that stalled longest was stalled.
fn stall_share(truth: &Value) -> f64 {
    let machine = &truth["machine"];
    let cpus = machine["cpus"].as_array().expect("CPUs").iter();
    let longest_ns = cpus.map(|cpu| number(cpu, "/paused_ns")).max();
    let life_ns = number(machine, "/end_ns") - number(machine, "/start_ns");
    longest_ns.expect("a CPU") as f64 / life_ns as f64
}

/// By the rule of `make accuracy`.
fn is_right(outcome: &Outcome) {
    let Outcome { report, truth } = outcome;
    let answers = diagnose::rules::answer_rules().map(diagnose::report::RuleId::name);
    let score = Score::new(truth, &report.json, &answers.collect::<Vec<_>>());
    assert!(score.is_right(), "{score:#?}{}", report.brief());
    let findings = report.json["findings"].as_array().expect("findings");
    windows_fit_buffers(findings);
    let claims = truth["expected"].as_array().into_iter().flatten();
    if claims
        .into_iter()
        .any(|claim| claim["rule"] == "proxy_stall")
    {
        assert_eq!(findings[0]["rule"], "proxy_stall", "{}", report.brief());
    }
}

/// A receiver announces at most what its buffer holds: both numbers are of the same time.
fn windows_fit_buffers(findings: &[Value]) {
    for evidence in findings.iter().map(|finding| &finding["evidence"]) {
        let whole = |name: &str| evidence[name]["value"].as_u64();
        let both = whole("largest_window_bytes").zip(whole("rcvbuf_bytes"));
        assert!(
            both.is_none_or(|(window, buffer)| window <= buffer),
            "{evidence}"
        );
    }
}
