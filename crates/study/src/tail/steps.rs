//! The steps of the study: each changes one thing, because of the diagnosis of the step before.

/// A server, and its steps.
#[derive(Debug)]
pub(super) struct StudiedServer {
    pub(super) name: &'static str,
    /// Port of the server in the study's own network.
    pub(super) port: u16,
    /// Requests a second that are measured.
    pub(super) rate: u32,
    /// From how it was found to how it is left.
    pub(super) steps: &'static [StudyStep],
    /// A change of the last step that looks like a good one and makes all messages slower.
    pub(super) mistake: Option<StudyStep>,
}

/// Setup of one step: the server's options, CPUs, and load.
#[derive(Debug, Clone, Copy)]
pub(super) struct StudyStep {
    /// The change.
    pub(super) name: &'static str,
    /// The server and its arguments.
    pub(super) server: &'static [&'static str],
    /// CPUs that the server may use.
    pub(super) server_cpus: CpuChoice,
    /// CPUs that the web server beside it and its client may use.
    pub(super) web_cpus: CpuChoice,
    /// Arguments of the client that asks for much at once.
    pub(super) batches: &'static [&'static str],
    /// The main problem, any of these: rule, and the beginning of its subject. Empty: no problem.
    pub(super) planted: &'static [(&'static str, &'static str)],
}

/// CPUs that a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuChoice {
    All,
    First,
    Others,
}

const LARGE: &[&str] = &["--kind", "values", "--requests", "250", "--pause-ms", "40"];
/// The problem of a program that shares CPUs with the web server and its client.
const WEB: &[(&str, &str)] = &[("cpu_contention", "nginx"), ("cpu_contention", "wrk")];
const CLIENTS: &[(&str, &str)] = &[
    ("cpu_contention", "nginx"),
    ("cpu_contention", "wrk"),
    ("cpu_contention", "open-loop"),
];
const REQUESTS_BEFORE: &[(&str, &str)] = &[("head_of_line_blocking", "other messages")];

/// memcached with so many threads: each takes so many requests of a connection before the next connection.
/// As the same user: a process that becomes another user outlives a parent that is killed.
macro_rules! memcached {
    ($threads:literal, $requests:literal) => {
        &[
            "memcached",
            "-u",
            "root",
            "-l",
            "127.0.0.1",
            "-t",
            $threads,
            "-R",
            $requests,
        ]
    };
}

/// As the study leaves memcached.
const SEPARATED: StudyStep = StudyStep {
    name: "20 requests of a connection at once (-R 20)",
    server: memcached!("1", "20"),
    server_cpus: CpuChoice::First,
    web_cpus: CpuChoice::Others,
    batches: LARGE,
    planted: &[],
};

/// Redis; `DEBUG POPULATE` makes its keys.
const REDIS: StudyStep = StudyStep {
    name: "as found",
    server: &[
        "redis-server",
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--enable-debug-command",
        "yes",
    ],
    server_cpus: CpuChoice::First,
    web_cpus: CpuChoice::Others,
    batches: &["--kind", "keys", "--pause-ms", "100"],
    planted: REQUESTS_BEFORE,
};

pub(super) const APPS: [StudiedServer; 2] = [
    StudiedServer {
        name: "memcached",
        port: 11211,
        rate: 5_000,
        steps: &[
            StudyStep {
                name: "as found",
                server: memcached!("4", "1000"),
                server_cpus: CpuChoice::All,
                web_cpus: CpuChoice::All,
                batches: LARGE,
                planted: WEB,
            },
            StudyStep {
                name: "nginx and memcached on CPUs of their own",
                server: memcached!("4", "1000"),
                planted: &[("cpu_contention", "its own other threads")],
                ..SEPARATED
            },
            StudyStep {
                name: "one thread on its one CPU (-t 1)",
                server: memcached!("1", "1000"),
                planted: REQUESTS_BEFORE,
                ..SEPARATED
            },
            SEPARATED,
        ],
        mistake: Some(StudyStep {
            name: "pinned to the CPUs that its clients use",
            server_cpus: CpuChoice::Others,
            planted: CLIENTS,
            ..SEPARATED
        }),
    },
    StudiedServer {
        name: "redis",
        port: 6379,
        rate: 5_000,
        steps: &[
            REDIS,
            StudyStep {
                name: "keys are scanned in small steps (SCAN)",
                batches: &["--kind", "scan", "--pause-ms", "100"],
                planted: &[],
                ..REDIS
            },
        ],
        mistake: None,
    },
];
