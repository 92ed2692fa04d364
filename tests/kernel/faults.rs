//! Faults that the lab plants are named, and nothing beside them; of their healthy twins, nothing.
//! One instance each; `make accuracy` plays many.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use lab::fault::{FAULTS, Fault, Variant};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::{Tied, finish, until, whylat};
use crate::report::{Report, number};

/// Plays a variant of a fault under a recording, as a user would.
fn recorded(fault: &Fault, variant: &str, congctl: &str) -> (Value, Report) {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let truth = scratch.path().join("truth.json");
    let mut command = whylat("run --output");
    command.arg(scratch.path().join("r.whylat")).arg("--");
    command.arg(crate::harness::program());
    command.args(["lab", "fault", fault.name, "--variant", variant]);
    command.args(["--congctl", congctl, "--truth"]).arg(&truth);
    finish(&mut command).ended(0);
    let truth = std::fs::read_to_string(truth).expect("the truth");
    let truth = serde_json::from_str(&truth).expect("JSON");
    (truth, Report::of(scratch))
}

/// Above info, each connection has only what was planted on it, and what a busy machine did to it.
fn assert_nothing_beside(report: &Report, truth: &Value, planted: &[(u64, &str)]) {
    for connection in report.connections() {
        let id = number(connection, "/id");
        let here = planted.iter().filter(|(cookie, _)| *cookie == id);
        let rules: Vec<&str> = here.map(|(_, rule)| *rule).collect();
        report.assert_claims(id, &[], &rules);
        let starved = report
            .claims(id)
            .iter()
            .any(|it| it.starts_with("cpu_contention"));
        let planted = rules.contains(&"cpu_contention");
        assert!(
            !starved || planted || waited_for_cpu(truth, id),
            "{}",
            report.brief()
        );
    }
}

/// Whether the scheduler itself told the role that its thread waited for more than 5 % of the
/// connection's life, which is above info.
fn waited_for_cpu(truth: &Value, cookie: u64) -> bool {
    let roles = truth["roles"].as_array().expect("roles").iter();
    let ends = roles.flat_map(|pair| {
        let clients = pair["clients"].as_array().expect("clients");
        clients.iter().chain([&pair["proxy"], &pair["server"]])
    });
    let mut connections = ends
        .filter_map(|end| end["connections"].as_array())
        .flatten();
    let found = connections.find(|connection| connection["cookie"] == cookie);
    found.is_some_and(|found| {
        let life_ns = number(found, "/closed_ns") - number(found, "/opened_ns");
        let waited_ns = found["thread"]["runq_ns"].as_u64().unwrap_or(0);
        waited_ns * 20 > life_ns
    })
}

/// The connections of a claim, each with its rule.
fn planted_on(claim: &Value) -> Vec<(u64, &str)> {
    let connections = claim["connections"].as_array().expect("connections");
    let rule = claim["rule"].as_str().expect("a rule");
    let cookies = connections.iter().map(|one| number(one, "/cookie"));
    cookies.map(|cookie| (cookie, rule)).collect()
}

/// Plays of a variant at most, where more was planted than the fault.
const PLAYS: usize = 4;

/// Longest part of a play that a CPU may have stood still: a fifth of what would be a warning.
const STOOD_STILL: f64 = 0.01;

/// The part of the play in which the CPU that stood still longest did.
fn stood_still(truth: &Value) -> f64 {
    let machine = &truth["machine"];
    let cpus = machine["cpus"].as_array().expect("CPUs").iter();
    let longest_ns = cpus.map(|cpu| number(cpu, "/paused_ns")).max();
    let life_ns = number(machine, "/end_ns") - number(machine, "/start_ns");
    longest_ns.expect("a CPU") as f64 / life_ns as f64
}

/// Packets that the path's queue had no room for, in a scene to which no loss belongs, if that loss is
/// what was named. What was missed is not excused by them.
fn overflowed(truth: &Value, report: &Report) -> u64 {
    const LOSS: [&str; 2] = ["fast_retransmits ", "retransmit_timeouts "];
    let lossless = truth["lossless"].as_bool().expect("it is said");
    let names_loss = report.connections().iter().any(|connection| {
        let claims = report.claims(number(connection, "/id"));
        let is_loss = |claim: &String| LOSS.iter().any(|rule| claim.starts_with(rule));
        claims.iter().any(is_loss)
    });
    match lossless && names_loss {
        true => number(&truth["wire"], "/a_to_b/dropped/queue/packets"),
        false => 0,
    }
}

/// Plays a variant and judges it: again, if it is wrong but the machine itself stood still, or if a
/// loss is named that the path was not to have, and had.
fn judged(fault: &Fault, variant: &str, congctl: &str, judge: impl Fn(&Value, &Report)) {
    for play in 1.. {
        let (truth, report) = recorded(fault, variant, congctl);
        let Err(why) = catch_unwind(AssertUnwindSafe(|| judge(&truth, &report))) else {
            return;
        };
        let (share, lost) = (stood_still(&truth), overflowed(&truth, &report));
        eprintln!(
            "{} {variant} {congctl}, play {play}: a CPU stood still {:.1} % of the time, {lost} \
             packets overflowed a queue",
            fault.name,
            share * 100.0
        );
        if (share < STOOD_STILL && lost == 0) || play == PLAYS {
            resume_unwind(why);
        }
    }
}

fn planted_and_found(fault: &Fault, congctl: &str) {
    judged(fault, "faulty", congctl, |truth, report| {
        let expected = truth["expected"].as_array().expect("a list");
        let planted: Vec<(u64, &str)> = expected.iter().flat_map(planted_on).collect();
        assert_eq!(planted.is_empty(), (fault.claim)(congctl).is_none());
        for (cookie, rule) in &planted {
            let finding = report.finding(*cookie, rule);
            let severity = finding.map(|finding| &finding["severity"]);
            let answer = diagnose::rules::ANSWERS.contains(rule);
            let wanted = severity.is_some_and(|s| *s != "info" || answer);
            assert!(wanted, "{rule}: {}", report.brief());
        }
        assert_nothing_beside(report, truth, &planted);
    });
    judged(fault, "healthy", congctl, |truth, twin| {
        assert_nothing_beside(twin, truth, &[]);
    });
}

#[test]
fn each_is_named_and_its_twin_is_not() {
    if !crate::harness::root() {
        return;
    }
    // One that is wrong does not hide the others.
    let is_wrong = |fault: &&Fault| catch_unwind(|| planted_and_found(fault, "cubic")).is_err();
    let wrong: Vec<&str> = FAULTS
        .iter()
        .filter(is_wrong)
        .map(|fault| fault.name)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_seed_is_the_same_instance_for_all_variants() {
    use lab::fault::scene::Dice;
    let scene = |fault: &Fault, variant| (fault.scene)(variant, &mut Dice::new(7));
    for fault in FAULTS {
        let faulty = scene(fault, Variant::Faulty);
        let again = scene(fault, Variant::Faulty);
        assert_eq!(format!("{faulty:?}"), format!("{again:?}"));
        let twin = scene(fault, Variant::Healthy);
        assert_eq!(faulty.forward.delay_us, twin.forward.delay_us);
        assert_ne!(format!("{faulty:?}"), format!("{twin:?}"), "{}", fault.name);
    }
}

#[test]
fn an_unknown_fault_names_the_known_ones() {
    let said = finish(&mut whylat("lab fault no_such_thing"));
    said.ended(1).explains("no_such_thing");
    assert!(said.err.contains("black_hole"), "{said:?}");
    let listed = finish(&mut whylat("lab list"));
    listed.ended(0);
    for fault in FAULTS {
        assert!(listed.out.contains(fault.name), "{listed:?}");
    }
}

/// All processes below this one.
fn descendants(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok());
    let below = |pid| std::iter::once(pid).chain(descendants(pid));
    children.flat_map(below).collect()
}

/// Ends a fault while its roles run, and sees them go. A namespace without a name goes with the
/// last process in it.
fn ended_by(signal: Signal) {
    let words = "lab fault black_hole --seed 2 --truth /dev/null --force";
    let fault = Tied::start(whylat(words).stdout(std::process::Stdio::null()));
    let roles = until("both roles, and who watches the CPUs", || {
        let roles = descendants(fault.0.id());
        (roles.len() == 3).then_some(roles)
    });
    fault.signal(signal);
    until("the end of the roles", || {
        // One that has ended has no words any more, whether its parent knows of it or not.
        let words = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        roles.iter().all(|pid| words(pid).is_empty()).then_some(())
    });
}

#[test]
fn nothing_is_left_of_a_fault_that_is_ended() {
    if crate::harness::root() {
        ended_by(Signal::SIGKILL);
        ended_by(Signal::SIGINT);
    }
}
