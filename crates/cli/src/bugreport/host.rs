//! The facts of the host in a bug report.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::Command;

use serde::Serialize;
use serde_json::{Value, json};

use crate::doctor::privileges;

/// Lines of the kernel's build that decide what whylat can do.
const CONFIG: [&str; 21] = [
    "CONFIG_BPF",
    "CONFIG_BPF_EVENTS",
    "CONFIG_BPF_JIT",
    "CONFIG_BPF_JIT_ALWAYS_ON",
    "CONFIG_BPF_LSM",
    "CONFIG_BPF_SYSCALL",
    "CONFIG_BPF_UNPRIV_DEFAULT_OFF",
    "CONFIG_CGROUP_BPF",
    "CONFIG_DEBUG_INFO_BTF",
    "CONFIG_DEBUG_INFO_BTF_MODULES",
    "CONFIG_FTRACE_SYSCALLS",
    "CONFIG_FUNCTION_TRACER",
    "CONFIG_HZ",
    "CONFIG_INET_DIAG",
    "CONFIG_INET_TCP_DIAG",
    "CONFIG_KPROBES",
    "CONFIG_PERF_EVENTS",
    "CONFIG_PREEMPT_DYNAMIC",
    "CONFIG_SECURITY_LOCKDOWN_LSM",
    "CONFIG_UPROBES",
    "CONFIG_UPROBE_EVENTS",
];

/// Settings that change what programs may see.
const SETTINGS: [&str; 7] = [
    "kernel/bpf_stats_enabled",
    "kernel/kptr_restrict",
    "kernel/perf_event_paranoid",
    "kernel/unprivileged_bpf_disabled",
    "kernel/yama/ptrace_scope",
    "net/core/bpf_jit_enable",
    "user/max_net_namespaces",
];

/// Names of environment variables that are no secrets.
const PLAIN_NAMES: [&str; 12] = [
    "HOME",
    "INTEL_LIBITTNOTIFY64",
    "LANG",
    "NO_COLOR",
    "PATH",
    "SHELL",
    "SUDO_UID",
    "TERM",
    "TMPDIR",
    "USER",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];

/// Lines of the agent's log.
const LOG_LINES: &str = "200";

/// Facts of this host; null: not readable.
#[derive(Debug, Serialize)]
pub(super) struct Host {
    schema: &'static str,
    whylat: &'static str,
    architecture: &'static str,
    distribution: Option<String>,
    uname: Option<String>,
    privileges: privileges::Privileges,
    lockdown: Option<String>,
    kernel_config: Option<BTreeMap<String, String>>,
    settings: BTreeMap<&'static str, Option<String>>,
}

/// Describes the host: kernel, distribution, rights, lockdown.
pub(super) fn describe() -> Host {
    Host {
        schema: "whylat.bugreport/1",
        whylat: env!("CARGO_PKG_VERSION"),
        architecture: std::env::consts::ARCH,
        distribution: read_distribution(),
        uname: read("/proc/sys/kernel/osrelease"),
        privileges: privileges::Privileges::read(),
        lockdown: read("/sys/kernel/security/lockdown"),
        kernel_config: kernel_config(),
        settings: SETTINGS
            .into_iter()
            .map(|name| (name, read(&format!("/proc/sys/{name}"))))
            .collect(),
    }
}

/// Returns the names of environment variables; `plain_only`: only known harmless ones, and the
/// number of others.
pub(super) fn environment_variables(plain_only: bool) -> Value {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let is_plain = |name: &String| PLAIN_NAMES.contains(&name.as_str()) || name.starts_with("LC_");
    let (mut plain, mut others): (Vec<_>, Vec<_>) = names.partition(is_plain);
    plain.sort();
    others.sort();
    match plain_only {
        true => json!({"names": plain, "others": others.len()}),
        false => json!({"names": plain, "others": others}),
    }
}

/// Returns the last lines of the agent's log, if there is a journal.
pub(super) fn agent_log() -> Option<Vec<String>> {
    let arguments = [
        "--unit",
        "whylat-agent",
        "--lines",
        LOG_LINES,
        "--no-pager",
        "--output",
        "short-iso",
    ];
    let journal = Command::new("journalctl").args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&journal.stdout).into_owned();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // `-- No entries --`
    let is_there = journal.status.success() && lines.iter().any(|line| !line.starts_with("-- "));
    is_there.then_some(lines)
}

/// Returns the text of a file; None if it cannot be read.
fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

/// Returns the name of the distribution; None if it cannot be read.
fn read_distribution() -> Option<String> {
    let release = read("/etc/os-release")?;
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// Returns the kernel's configuration, from the kernel or its package.
fn kernel_config() -> Option<BTreeMap<String, String>> {
    let text = built_in().or_else(|| {
        let release = read("/proc/sys/kernel/osrelease")?;
        read(&format!("/boot/config-{release}"))
    })?;
    let wanted = |line: &str| {
        let (name, value) = line.split_once('=')?;
        CONFIG
            .contains(&name)
            .then(|| (name.to_owned(), value.to_owned()))
    };
    Some(text.lines().filter_map(wanted).collect())
}

/// Returns the kernel's configuration from `/proc/config.gz`; None if it is not there.
fn built_in() -> Option<String> {
    let file = fs::File::open("/proc/config.gz").ok()?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}
