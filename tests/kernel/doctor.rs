//! `whylat doctor` where something is missing: it names each gap with its remedy, and nothing else suffers.

use std::process::Command;

use serde_json::Value;

use testbed::{finish, program, root};

/// Returns the doctor's report when `command` starts it.
fn ask(command: &mut Command) -> Value {
    let output = finish(command.arg(program()).args(["doctor", "--json"]));
    assert!(!output.err.contains("panicked"), "{output:?}");
    serde_json::from_str(&output.out).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

/// Returns the doctor's report for root without some capabilities.
fn without(capabilities: &str) -> Value {
    ask(Command::new("setpriv")
        .args(["--inh-caps=-all", &format!("--bounding-set={capabilities}")]))
}

/// The state of a row, and its remedy.
fn row<'f>(findings: &'f Value, name: &str) -> (&'f str, &'f str) {
    let rows = ["probes", "checks"]
        .iter()
        .flat_map(|list| findings[*list].as_array().expect("rows"));
    let found = rows.into_iter().find(|row| row["probe"] == name);
    let row = found.unwrap_or_else(|| panic!("{name} is not in {findings:#}"));
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    (text("state"), text("remedy"))
}

/// The names of rows that do not work.
fn off(findings: &Value) -> Vec<&str> {
    let rows = ["probes", "checks"]
        .iter()
        .flat_map(|list| findings[*list].as_array().expect("rows"));
    rows.filter(|row| row["state"] == "off")
        .filter_map(|row| row["probe"].as_str())
        .collect()
}

/// Returns whether polls walk network namespaces, because the kernel refuses iterators over maps, as the doctor says it when
/// `command` starts it.
pub fn walks_netns(command: &mut Command) -> bool {
    let report = ask(command);
    let mut probes = report["probes"].as_array().expect("rows").iter();
    probes.any(|row| row["probe"] == "tcp_stats.polls" && row["state"] == "fallback")
}

/// Returns why polls do not reach other network namespaces, as the doctor says it when `command` starts it; `None`: they do.
pub fn other_netns_limit(command: &mut Command) -> Option<String> {
    let report = ask(command);
    let probes = report["probes"].as_array().expect("rows");
    let row = probes
        .iter()
        .find(|row| row["probe"] == "tcp_stats.other_netns")?;
    Some(row["why"].as_str().expect("a reason").to_owned())
}

/// Returns whether the doctor's text lists a probe as working.
pub fn is_ok(text: &str, probe: &str) -> bool {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("  ok "));
    lines.any(|line| line.trim().split(", ").any(|name| name == probe))
}

#[test]
fn each_missing_capability_has_a_remedy() {
    if !root() {
        return;
    }
    let all = without("+all");
    let by_programs = [
        "inventory",
        "tcp_events",
        "drops",
        "calls",
        "tcp_stages",
        "waits",
        "messages",
        "activity",
    ];
    // CAP_SYS_ADMIN includes those that were split from it
    let known: [(&str, &str, &[&str], &[&str]); 8] = [
        (
            "-bpf,-sys_admin",
            "CAP_BPF",
            &by_programs,
            &["tcp_stats.without_bpf", "stacks", "cpu"],
        ),
        (
            "-perfmon,-sys_admin",
            "CAP_PERFMON",
            &by_programs,
            &["tcp_stats.without_bpf", "stacks", "cpu"],
        ),
        (
            "-net_admin,-sys_admin",
            "CAP_NET_ADMIN",
            &["messages"],
            &[
                "inventory",
                "calls",
                "waits",
                "dns_waits",
                "preemptions",
                "spins",
                "on_cpu_samples",
                "activity",
            ],
        ),
        (
            "-sys_ptrace",
            "CAP_SYS_PTRACE",
            &["stacks"],
            &["inventory", "calls", "waits", "messages", "netns"],
        ),
        // a recorder does not keep CAP_SYS_ADMIN, which would do for the first
        (
            "-checkpoint_restore",
            "CAP_CHECKPOINT_RESTORE",
            &["stacks.programs"],
            &["waits", "stacks", "stacks.kernel", "stacks.private_files"],
        ),
        (
            "-dac_read_search",
            "CAP_DAC_READ_SEARCH",
            &["stacks.private_files"],
            &["waits", "stacks", "stacks.kernel", "stacks.programs"],
        ),
        // what suffers, the kernel's settings decide
        (
            "-syslog",
            "CAP_SYSLOG",
            &[],
            &["waits", "stacks", "stacks.programs", "stacks.private_files"],
        ),
        (
            "-sys_admin",
            "CAP_SYS_ADMIN",
            &["netns", "lab"],
            &[
                "inventory",
                "calls",
                "waits",
                "messages",
                "stacks",
                "stacks.programs",
            ],
        ),
    ];
    for (set, capability, suffer, go_on) in known {
        let findings = without(set);
        assert!(
            findings["privileges"]["missing"]
                .to_string()
                .contains(capability),
            "{findings:#}"
        );
        for name in suffer {
            let (state, remedy) = row(&findings, name);
            assert!(
                state == "off" && remedy.contains(capability),
                "{name} without {capability}: {state}, {remedy}"
            );
        }
        for name in go_on {
            assert_eq!(
                row(&findings, name).0,
                row(&all, name).0,
                "{name} without {capability}"
            );
        }
    }
}

/// As `kallsyms_show_value()` of the kernel decides (kernel/ksyms_common.c).
#[test]
fn kernel_names_follow_kptr_restrict() {
    if !root() {
        return;
    }
    let setting = |name: &str| -> i32 {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).expect("a setting");
        text.trim().parse().expect("a number")
    };
    let (restrict, paranoid) = (setting("kptr_restrict"), setting("perf_event_paranoid"));
    for (set, has) in [("+all", true), ("-syslog", false)] {
        let is_shown = match restrict {
            0 => has || paranoid <= 1,
            1 => has,
            _ => false,
        };
        let findings = without(set);
        let (state, remedy) = row(&findings, "stacks.kernel");
        assert_eq!(
            state,
            if is_shown { "on" } else { "off" },
            "{set}: {remedy}"
        );
        let names_fix = |word: &str| remedy.contains(word);
        assert_eq!(
            names_fix("kernel.kptr_restrict=1"),
            restrict >= 2,
            "{remedy}"
        );
        assert_eq!(names_fix("give CAP_SYSLOG"), !is_shown && !has, "{remedy}");
    }
}

#[test]
fn unneeded_capabilities_are_not_reported() {
    if !root() {
        return;
    }
    let needed = "+bpf,+perfmon,+net_admin,+sys_ptrace,+sys_admin";
    let by_names = "+dac_read_search,+syslog,+checkpoint_restore";
    let all = without("+all");
    let few = without(&format!("-all,{needed},{by_names}"));
    assert_eq!(off(&few), off(&all));
    assert_eq!(few["privileges"]["missing"], serde_json::json!([]));
}

/// As in a rootless container: all capabilities, but not of the kernel as a whole.
#[test]
fn user_namespace_is_reported() {
    if !root() {
        return;
    }
    let findings = ask(Command::new("unshare").args(["--user", "--map-root-user", "--"]));
    assert_eq!(findings["privileges"]["is_in_user_namespace"], true);
    let (state, remedy) = row(&findings, "calls");
    assert!(
        state == "off" && remedy.contains("user namespace"),
        "{state}: {remedy}"
    );
    assert_ne!(row(&findings, "tcp_stats.without_bpf").0, "off");
    for name in ["stacks.programs", "stacks.private_files"] {
        let (state, remedy) = row(&findings, name);
        assert!(
            state == "off" && remedy.contains("user namespace"),
            "{name}: {state}: {remedy}"
        );
    }
}

/// As in a container without the host's process ids.
#[test]
fn pid_namespace_is_reported() {
    if !root() {
        return;
    }
    for mount in ["--mount-proc", "--fork"] {
        let findings = ask(Command::new("unshare").args(["--pid", "--fork", mount, "--"]));
        assert_eq!(findings["privileges"]["is_in_pid_namespace"], true);
        let (state, remedy) = row(&findings, "pids");
        assert!(
            state == "off" && remedy.contains("--pid=host"),
            "{state}: {remedy}"
        );
        assert_eq!(row(&findings, "calls").0, row(&without("+all"), "calls").0);
    }
    assert_ne!(row(&without("+all"), "pids").0, "off");
}

#[test]
fn ordinary_user_sees_sudo_and_setcap() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scratch.path(), open).expect("chmod");
    let copy = scratch.path().join("whylat");
    std::fs::copy(program(), &copy).expect("copy");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    let output = finish(command.arg(&copy).arg("doctor"));
    output.assert_status(1);
    assert!(
        output
            .out
            .contains("privileges   user id 65534 without capabilities"),
        "{}",
        output.out
    );
    for words in [
        "sudo whylat",
        "sudo setcap cap_bpf,",
        "partly     tcp_stats.without_bpf: own sockets",
    ] {
        assert!(output.out.contains(words), "{words}: {}", output.out);
    }
}
