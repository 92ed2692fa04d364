//! Every fault that the lab can plant is named, and nothing beside it; of its healthy twin, nothing.
//! One instance each; `make accuracy` plays many.

use lab::fault::{FAULTS, Fault, Variant};
use serde_json::Value;

use crate::harness::{finish, whylat};
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

/// Every claim in the report is one of these.
fn assert_nothing_beside(report: &Report, planted: &[(u64, &str)], what: &str) {
    for connection in report.connections() {
        let id = number(connection, "/id");
        let here = planted.iter().filter(|(cookie, _)| *cookie == id);
        let rules: Vec<&str> = here.map(|(_, rule)| *rule).collect();
        eprintln!("{what}: socket {id}, planted {rules:?}");
        report.assert_claims(id, &[], &rules);
    }
}

fn planted_and_found(fault: &Fault, congctl: &str) {
    let (truth, report) = recorded(fault, "faulty", congctl);
    let expected = &truth["expected"];
    let rule = expected["rule"].as_str();
    let connections = expected["connections"].as_array();
    let cookies = connections.into_iter().flatten();
    let cookies = cookies.map(|connection| number(connection, "/cookie"));
    let planted: Vec<(u64, &str)> = cookies.zip(rule.into_iter().cycle()).collect();
    assert_eq!(planted.is_empty(), (fault.claim)(congctl).is_none());
    for (cookie, rule) in &planted {
        let finding = report.finding(*cookie, rule);
        let severity = finding.map(|finding| &finding["severity"]);
        let answer = diagnose::rules::ANSWERS.contains(rule);
        let wanted = severity.is_some_and(|s| *s != "info" || answer);
        assert!(wanted, "{} {congctl}: {}", fault.name, report.brief());
    }
    assert_nothing_beside(&report, &planted, fault.name);
    let (_, twin) = recorded(fault, "healthy", congctl);
    assert_nothing_beside(&twin, &[], fault.name);
}

#[test]
fn each_is_named_and_its_twin_is_not() {
    if crate::harness::root() {
        for fault in FAULTS {
            planted_and_found(fault, "cubic");
        }
    }
}

#[test]
fn a_seed_is_the_same_instance_for_all_variants() {
    use lab::fault::scene::Dice;
    let scene = |fault: &Fault, variant| (fault.scene)(variant, &mut Dice::new(7));
    for fault in FAULTS {
        let faulty = scene(fault, Variant::Faulty).expect("every fault has its own form");
        let again = scene(fault, Variant::Faulty).expect("twice");
        assert_eq!(format!("{faulty:?}"), format!("{again:?}"));
        let twin = scene(fault, Variant::Healthy).expect("every fault has a twin");
        assert_eq!(faulty.forward.delay_us, twin.forward.delay_us);
        assert_ne!(format!("{faulty:?}"), format!("{twin:?}"), "{}", fault.name);
    }
}
