//! What the study does, step by step: each changes one thing, because of what the step before was told.

/// A server that is looked at, and what happens to it.
#[derive(Debug)]
pub(super) struct App {
    pub(super) name: &'static str,
    /// Port of the server in the study's own network.
    pub(super) port: u16,
    /// Of the requests whose latency is measured, a second.
    pub(super) rate: u32,
    /// From how it was found to how it is left.
    pub(super) steps: &'static [Step],
    /// A change of the last step that looks like a good one and makes all messages slower.
    pub(super) mistake: Option<Step>,
}

/// How everything is set up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// What was changed.
    pub(super) name: &'static str,
    /// The server and its arguments.
    pub(super) server: &'static [&'static str],
    /// CPUs that the server may use.
    pub(super) server_cpus: Cpus,
    /// CPUs that the web server beside it and its client may use.
    pub(super) web_cpus: Cpus,
    /// Arguments of the client that asks for much at once.
    pub(super) batches: &'static [&'static str],
    /// What is wrong most of all, any of these: rule, and the beginning of what has it. None: nothing is.
    pub(super) planted: &'static [(&'static str, &'static str)],
}

/// CPUs that a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cpus {
    All,
    First,
    Others,
}

const LARGE: &[&str] = &["--kind", "values", "--requests", "250", "--pause-ms", "40"];
/// What the web server and its client do to whoever shares their CPUs.
const WEB: &[(&str, &str)] = &[("cpu_contention", "nginx"), ("cpu_contention", "wrk")];
const CLIENTS: &[(&str, &str)] = &[
    ("cpu_contention", "nginx"),
    ("cpu_contention", "wrk"),
    ("cpu_contention", "open-loop"),
];
const REQUESTS_BEFORE: &[(&str, &str)] = &[("head_of_line_blocking", "other messages")];

/// memcached with so many threads, each of which takes so many requests of a connection before it looks at the next.
/// As who we are: a process that becomes somebody else outlives a parent that is killed.
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
const MENDED: Step = Step {
    name: "20 requests of a connection at once (-R 20)",
    server: memcached!("1", "20"),
    server_cpus: Cpus::First,
    web_cpus: Cpus::Others,
    batches: LARGE,
    planted: &[],
};

/// Redis; `DEBUG POPULATE` makes its keys.
const REDIS: Step = Step {
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
    server_cpus: Cpus::First,
    web_cpus: Cpus::Others,
    batches: &["--kind", "keys", "--pause-ms", "100"],
    planted: REQUESTS_BEFORE,
};

pub(super) const APPS: [App; 2] = [
    App {
        name: "memcached",
        port: 11211,
        rate: 5_000,
        steps: &[
            Step {
                name: "as found",
                server: memcached!("4", "1000"),
                server_cpus: Cpus::All,
                web_cpus: Cpus::All,
                batches: LARGE,
                planted: WEB,
            },
            Step {
                name: "nginx and memcached on CPUs of their own",
                server: memcached!("4", "1000"),
                planted: &[("cpu_contention", "its own other threads")],
                ..MENDED
            },
            Step {
                name: "one thread on its one CPU (-t 1)",
                server: memcached!("1", "1000"),
                planted: REQUESTS_BEFORE,
                ..MENDED
            },
            MENDED,
        ],
        mistake: Some(Step {
            name: "pinned to the CPUs that its clients use",
            server_cpus: Cpus::Others,
            planted: CLIENTS,
            ..MENDED
        }),
    },
    App {
        name: "redis",
        port: 6379,
        rate: 5_000,
        steps: &[
            REDIS,
            Step {
                name: "keys are looked through in small steps (SCAN)",
                batches: &["--kind", "scan", "--pause-ms", "100"],
                planted: &[],
                ..REDIS
            },
        ],
        mistake: None,
    },
];
