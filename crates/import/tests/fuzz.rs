//! Whatever the bytes are: no panic, every line accounted for, and spans that are nested.

mod common;

use common::check;
use proptest::prelude::*;

const TEXTS: [&str; 3] = [
    include_str!("traces/branches.perf"),
    include_str!("traces/sched.txt"),
    include_str!("traces/graph.txt"),
];

/// Imports bytes as a trace of perf and of ftrace, and checks what comes.
fn import_both(bytes: &[u8]) {
    for import in [whylat_import::read_perf, whylat_import::read_ftrace] {
        if let Ok(imported) = import(bytes) {
            check(&imported);
        }
    }
}

/// Generates lines of random pieces; most lines parse.
fn line() -> impl Strategy<Value = String> {
    let kinds = prop::sample::select(vec![
        "call",
        "return",
        "jmp",
        "jcc (x)",
        "hw int",
        "iret",
        "syscall",
        "sysret",
        "tr strt",
        "tr end",
        "tr end  syscall",
        "tr end  return",
        "tx abrt",
        "tr strt tr end",
        "vmexit",
        "odd",
    ]);
    let branch = (0_u64..40, 1_u32..3, kinds, 0_u64..6, any::<bool>()).prop_map(
        |(time, tid, kind, function, in_kernel)| {
            let high = if in_kernel { "ffffffff8000000" } else { "40000" };
            format!(
                "{tid}/{tid} 1.{time:09}: 1 branches:uH: {kind} 10 a+0x1 (x) => {high}{function} f{function}+0x0 (x)"
            )
        },
    );
    let error = (0_u64..40, 1_u32..3, any::<bool>()).prop_map(|(time, tid, timed)| {
        let time = if timed {
            format!("time 1.{time:09} ")
        } else {
            String::new()
        };
        format!(" instruction trace error type 1 {time}cpu 0 pid {tid} tid {tid} ip 0 code 7: lost")
    });
    prop_oneof![10 => branch, 1 => error]
}

/// Generates a line of a trace.
fn event() -> impl Strategy<Value = String> {
    let bodies = prop::sample::select(vec![
        "sched_switch: a:1 [120] S ==> b:2 [120]",
        "sched_switch: b:2 [120] S ==> swapper:0 [120]",
        "irq_handler_entry: irq=1 name=eth",
        "irq_handler_exit: irq=1 ret=handled",
        "softirq_entry: vec=1 [action=TIMER]",
        "softirq_exit: vec=1 [action=TIMER]",
        "sys_enter: NR 3 (0)",
        "sys_exit: NR 3 = 0",
        "funcgraph_entry: | f() {",
        "funcgraph_entry: 3.500 us | g();",
        "funcgraph_exit: | }",
        "funcgraph_exit: | } /* f */",
    ]);
    let event = (0_u64..40, 0_u32..3, 0_u32..2, bodies)
        .prop_map(|(time, tid, cpu, body)| format!("t{tid}-{tid} [00{cpu}] 1.{time:09}: {body}"));
    prop_oneof![20 => event, 1 => Just("CPU:0 [LOST 3 EVENTS]".to_owned())]
}

/// Generates a text of lines, sorted by time or not.
fn text(line: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (prop::collection::vec(line, 1..60), any::<bool>()).prop_map(|(mut lines, sorted)| {
        if sorted {
            lines.sort_by_key(|line| {
                line.find("1.")
                    .map(|at| line[at..].get(..11).map(str::to_owned))
            });
        }
        lines.join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_bytes_are_accounted_for(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        import_both(&bytes);
    }

    #[test]
    fn random_text_is_accounted_for(text in ".{0,200}") {
        import_both(text.as_bytes());
    }

    #[test]
    fn changed_traces_are_accounted_for(
        text in prop::sample::select(TEXTS.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..128), 1..8),
    ) {
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        import_both(&bytes);
    }

    #[test]
    fn random_branches_are_accounted_for(text in text(line())) {
        let imported = whylat_import::read_perf(text.as_bytes()).unwrap();
        check(&imported);
        prop_assert_eq!(imported.tally.read, text.lines().count() as u64);
    }

    #[test]
    fn random_events_are_accounted_for(text in text(event())) {
        if let Ok(imported) = whylat_import::read_ftrace(text.as_bytes()) {
            check(&imported);
            prop_assert_eq!(imported.tally.read, text.lines().count() as u64);
        }
    }
}
