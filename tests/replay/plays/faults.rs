//! Faults that the lab plants are named, and nothing beside them; of their healthy twins and of those
//! that are mended as the finding advises, nothing. One instance each; `make accuracy` plays many.

use lab::fault::{FAULTS, Fault, Score};
use serde_json::Value;

use crate::harness::{finish, program, whylat};
use crate::play::{Outcome, Play};
use crate::report::{Report, number};
use crate::shrink::CONNECTIONS;

pub fn plays() -> Vec<Play> {
    let mut plays = Vec::new();
    for fault in FAULTS {
        for congctl in ["cubic", "bbr"] {
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
        tables: CONNECTIONS,
    }
}

/// Plays a variant of a fault under a recording, as a user would.
fn record(fault: &Fault, variant: &str, congctl: &str) -> Result<Outcome, String> {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let truth = scratch.path().join("truth.json");
    let mut command = whylat("run --output");
    command.arg(scratch.path().join("r.whylat")).arg("--");
    command.arg(program());
    command.args(["lab", "fault", fault.name, "--variant", variant]);
    command.args(["--congctl", congctl, "--truth"]).arg(&truth);
    finish(&mut command).ended(0);
    let truth = std::fs::read_to_string(truth).expect("the truth");
    let truth = serde_json::from_str(&truth).expect("JSON");
    came_about(fault, &truth)?;
    let report = Report::of(scratch);
    Ok(Outcome { report, truth })
}

/// Longest part of a play that a CPU may have stood still: a fifth of what would be a warning.
const STOOD_STILL: f64 = 0.01;

/// Whether it was planted, and nothing else beside it, by the account of those who planted it.
fn came_about(fault: &Fault, truth: &Value) -> Result<(), String> {
    let still = stood_still(truth);
    if still >= STOOD_STILL {
        return Err(format!(
            "a CPU stood still {:.1} % of the time",
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
    let score = Score::of(truth, &Value::Null, &[]);
    match wanted && score.planted.is_empty() {
        true => Err("no connection has the fault".to_owned()),
        false => Ok(()),
    }
}

/// The part of the play in which the CPU that stood still longest did.
fn stood_still(truth: &Value) -> f64 {
    let machine = &truth["machine"];
    let cpus = machine["cpus"].as_array().expect("CPUs").iter();
    let longest_ns = cpus.map(|cpu| number(cpu, "/paused_ns")).max();
    let life_ns = number(machine, "/end_ns") - number(machine, "/start_ns");
    longest_ns.expect("a CPU") as f64 / life_ns as f64
}

/// By the rule of `make accuracy`.
fn is_right(outcome: &Outcome) {
    let Outcome { report, truth } = outcome;
    let score = Score::of(truth, &report.json, &diagnose::rules::ANSWERS);
    assert!(score.is_right(), "{score:#?}{}", report.brief());
}
