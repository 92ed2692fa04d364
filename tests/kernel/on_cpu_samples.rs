//! Samples of what threads run, against the CPU time that they used.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use table::tables::{OnCpuSample, StackFrame, Symbol};

use testbed::report::{Report, number, text};
use testbed::{finish, program, root};

/// Uses a CPU in known ways: see its head.
const USE_CPU: &str = include_str!("programs/use_cpu.c");

/// Records the program at detail `waits`; returns what it says of itself, and the recording.
fn record() -> (Vec<Value>, Report) {
    let scratch = tempfile::tempdir().expect("a directory");
    let place = |name| scratch.path().join(name);
    std::fs::write(place("use_cpu.c"), USE_CPU).expect("the source");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-o"]).arg(place("use_cpu"));
    finish(compiler.arg(place("use_cpu.c"))).assert_status(0);
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "waits", "--output"]);
    run.arg(place("r.whylat"));
    run.args(["--", "sh", "-c", "exec \"$0\" > \"$1\""]);
    run.arg(place("use_cpu")).arg(place("truth"));
    finish(&mut run).assert_status(0);
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    let truth = std::fs::read_to_string(report.file_beside("truth")).expect("its account");
    let truth = truth
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    (truth.collect(), report)
}

/// Names of all functions of each stack, by its number.
fn functions(report: &Report) -> BTreeMap<u32, Vec<String>> {
    let names: BTreeMap<_, _> = report
        .rows::<Symbol>()
        .into_iter()
        .filter_map(|it| Some(((it.object, it.offset), it.function?)))
        .collect();
    let mut stacks: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for frame in report.rows::<StackFrame>() {
        let place = frame.object.zip(frame.offset);
        let name = place.and_then(|place| names.get(&place)).cloned();
        let stack = stacks.entry(frame.stack).or_default();
        stack.push(name.unwrap_or_default());
    }
    stacks
}

/// Of n samples the standard error is √n or less: five of them are allowed.
fn assert_fits(phase: &Value, samples: &[&OnCpuSample]) {
    let sampled_ns: u64 = samples.iter().map(|it| it.length_ns).sum();
    let cpu_ns = number(phase, "/cpu_ns");
    let bound_ns = 5.0 * (samples.len() as f64).sqrt() * 1e9 / 99.0;
    assert!(
        sampled_ns.abs_diff(cpu_ns) as f64 <= bound_ns,
        "{phase}: {sampled_ns} ns in {} samples",
        samples.len()
    );
}

#[test]
fn on_cpu_samples_match_cpu_time() {
    if !root() {
        return;
    }
    let (truth, report) = record();
    let stacks = functions(&report);
    let all: Vec<OnCpuSample> = report.rows();
    let has = |stack: Option<u32>, name: &str| {
        let stack = stack.and_then(|number| stacks.get(&number));
        stack.is_some_and(|names| names.iter().any(|it| it == name))
    };
    let most = |samples: &[&OnCpuSample], is: &dyn Fn(&OnCpuSample) -> bool| {
        let found = samples.iter().filter(|it| is(it)).count();
        assert!(
            10 * found >= 9 * samples.len(),
            "{found} of {}: {samples:#?} {stacks:#?}",
            samples.len()
        );
    };
    assert_eq!(truth.len(), 3);
    for phase in &truth {
        let span = number(phase, "/start_ns")..number(phase, "/end_ns");
        let samples = all.iter().filter(|it| span.contains(&it.time_ns));
        let samples: Vec<&OnCpuSample> = samples.collect();
        match text(phase, "name") {
            "compute" => {
                assert_fits(phase, &samples);
                most(&samples, &|it| has(it.stack, "compute"));
                most(&samples, &|it| it.syscall.is_none() && !it.in_kernel);
            }
            "read_zeros" => {
                assert_fits(phase, &samples);
                most(&samples, &|it| has(it.stack, "read_zeros"));
                most(&samples, &|it| {
                    it.syscall == Some(nix::libc::SYS_read as i32)
                });
                most(&samples, &|it| it.in_kernel && it.kernel_stack.is_some());
            }
            _ => assert!(samples.len() <= 1, "{samples:#?}"),
        }
    }
}
