//! Made-up traces, small enough to know every span of them.

mod common;

use common::{check, rows};
use table::tables::Activity;
use whylat_import::TraceImport;

/// Rows in short: depth, kind, name, begin and end in ns after `base_ns`; `<` and `>` mark ends that
/// were not seen.
fn short(imported: &TraceImport, base_ns: u64) -> Vec<String> {
    check(imported);
    rows(imported)
        .iter()
        .map(|row| line(row, base_ns))
        .collect()
}

/// Returns an activity as one line, with times after `base_ns`.
fn line(row: &Activity, base_ns: u64) -> String {
    let mark = |seen: bool, mark: &'static str| if seen { "" } else { mark };
    format!(
        "{} {} {} {}{}..{}{}",
        row.depth,
        row.kind,
        row.name.as_deref().unwrap_or("-"),
        mark(row.begin_seen, "<"),
        row.begin_ns - base_ns,
        row.end_ns - base_ns,
        mark(row.end_seen, ">"),
    )
}

#[test]
fn every_gap_of_branches_is_completed() {
    let imported = whylat_import::read_perf(include_bytes!("traces/branches.perf")).unwrap();
    let expected = [
        // main was never called: it began before the trace.
        "0 function main <0..1000>",
        // Two calls at one time share the time until the next.
        "1 function parse 0..200",
        "2 function next 50..100",
        // A tail call.
        "1 function finish 200..500",
        "2 irq asm_timer 300..400",
        "3 function asm_timer 300..400",
        "1 syscall - 600..900",
        // send was running after the break, and main had called it.
        "0 function main <1000..1600>",
        "1 decode_error Overflow packet 1000..1500",
        "1 function send 1500..1600",
    ];
    assert_eq!(short(&imported, 10_000_001_000), expected);
    assert_eq!(imported.tally.used, 12);
    let ignored: Vec<_> = imported.tally.ignored.into_iter().collect();
    assert_eq!(
        ignored,
        [("blank", 1), ("comments", 1), ("not an event", 1)]
    );
}

#[test]
fn tracepoints_become_spans() {
    let imported = whylat_import::read_ftrace(include_bytes!("traces/sched.txt")).unwrap();
    let expected = [
        "0 task app <0..20000",
        "1 syscall - <0..0",
        "1 syscall write 10000..20000>",
        "0 idle - 20000..60000",
        "1 irq eth0-rx 30000..34000",
        "1 softirq NET_RX 35000..50000",
        "0 task app 60000..80000>",
        "1 syscall write <60000..70000",
        "1 irq local_timer 80000..80000>",
        "0 decode_error LOST 12 EVENTS 80000..300000",
        "0 task app <300000..310000>",
        "1 syscall close 300000..310000",
    ];
    assert_eq!(short(&imported, 10_000_100_000), expected);
    let ignored: Vec<_> = imported.tally.ignored.into_iter().collect();
    let reasons = [
        ("comments and headings", 2),
        ("earlier than the CPU's event before", 1),
        ("events that are no activity", 1),
    ];
    assert_eq!(ignored, reasons);
}

#[test]
fn function_graph_becomes_spans() {
    let imported = whylat_import::read_ftrace(include_bytes!("traces/graph.txt")).unwrap();
    let expected = [
        // Its call came before the trace.
        "0 function inet_sendmsg <0..9000",
        "1 function tcp_sendmsg 0..8000",
        "2 function lock_sock_nested 1000..1000",
        "2 function tcp_sendmsg_locked 2000..7000",
        "3 irq - 3000..6000",
        "4 function handle_irq 4000..5000",
        "0 idle - <19000..19000>",
        "1 function cpuidle_enter 19000..19000>",
    ];
    assert_eq!(short(&imported, 20_000_001_000), expected);
    assert_eq!(imported.tally.ignored["functions without their time"], 1);
}

#[test]
fn trace_cmd_report_becomes_spans() {
    let text = "cpus=2
     app-71    [000]    30.000000100: funcgraph_entry:                   |  vfs_read() {
     app-71    [000]    30.000000200: funcgraph_entry:        0.150 us   |    rw_verify_area();
     app-71    [000]    30.000000300: sched_switch:         app:71 [120] S ==> swapper/0:0 [120]
  <idle>-0     [000]    30.000000500: sched_switch:         swapper/0:0 [120] R ==> app:71 [120]
     app-71    [000]    30.000000600: funcgraph_exit:         0.500 us   |  }
";
    let imported = whylat_import::read_ftrace(text.as_bytes()).unwrap();
    let expected = [
        "0 task app <0..200",
        "1 function vfs_read 0..200>",
        // It seemed to last until 250 ns: cut where the next event shows that it had ended.
        "2 function rw_verify_area 100..200",
        "0 idle - 200..400",
        "0 task app 400..500>",
        "1 function vfs_read <400..500",
    ];
    assert_eq!(short(&imported, 30_000_000_100), expected);
}

#[test]
fn perf_script_tracepoints_become_spans() {
    let text = "app    71 [002]    40.000000100: raw_syscalls:sys_enter: NR 1 (3, 7f, a, 0, 0, 0)
app    71 [002]    40.000000300:  raw_syscalls:sys_exit: NR 1 = 10
app    71 [002]    40.000000400:     sched:sched_switch: prev_comm=app prev_pid=71 prev_prio=120 prev_state=S ==> next_comm=b c next_pid=9 next_prio=120
";
    let imported = whylat_import::read_perf(text.as_bytes()).unwrap();
    let expected = [
        "0 task app <0..300",
        "1 syscall NR 1 0..200",
        "0 task b c 300..300>",
    ];
    assert_eq!(short(&imported, 40_000_000_100), expected);
}

#[test]
fn sampled_stacks_become_spans() {
    let text = "7/7 50.000000100: 1 cycles:u: \n\t 10 leaf+0x1 (a)\n\t 20 main+0x5 (a)\n\n\
                7/7 50.000000200: 1 cycles:u: \n\t 30 other+0x1 (a)\n\t 24 main+0x9 (a)\n\n\
                7/7 50.000000300: 1 cycles:u: \n";
    let imported = whylat_import::read_perf(text.as_bytes()).unwrap();
    let expected = [
        "0 function main <0..100>",
        "1 function leaf <0..100>",
        "1 function other <100..100>",
    ];
    assert_eq!(short(&imported, 50_000_000_100), expected);
    assert_eq!(imported.tally.ignored["samples without a call stack"], 1);
}

#[test]
fn foreign_files_are_refused() {
    for bytes in [
        &b""[..],
        b"\n\n",
        b"hello\n",
        b"# only a comment\n",
        b"\xff\xfe\n",
    ] {
        for import in [whylat_import::read_perf, whylat_import::read_ftrace] {
            let error = import(bytes).unwrap_err().to_string();
            assert!(error.contains("hint: "), "{error}");
        }
    }
}
