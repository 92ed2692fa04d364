//! Alerts: one for each problem of connections that agents count, and those of the agents themselves.

use std::fmt::Write;

use whylat_agent::problems::PROBLEMS;

const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

/// Share of the watched time that was limited, by host, service and problem: fifteen intervals of an agent.
const RATIO: &str = "whylat:tcp_limited:ratio_rate15m";
const RATIO_QUERY: &str = "sum by (instance, application, problem) (rate(whylat_tcp_limited_seconds_total[15m]))\n\
    / on (instance, application) group_left ()\n\
    sum by (instance, application) (rate(whylat_tcp_watched_seconds_total[15m]))";

/// The bands of severity of every finding (docs/findings/README.md), which are those of SNAP's Table 4.
const BANDS: [(&str, &str); 2] = [("warning", "0.05"), ("critical", "0.5")];

/// Problems as the agent labels them, and the name of the alert.
const ALERTS: [(&str, &str); 5] = [
    ("send_buffer", "WhylatSendBufferLimited"),
    ("receiver_window", "WhylatReceiverWindow"),
    ("delayed_ack", "WhylatDelayedAcks"),
    ("fast_retransmit", "WhylatFastRetransmits"),
    ("timeout", "WhylatRetransmitTimeouts"),
];

/// Alerts of agents: name, severity, query, how long it holds, summary.
const OF_AGENTS: [(&str, &str, &str, &str, &str); 9] = [
    (
        "WhylatAgentLate",
        "critical",
        "time() - whylat_agent_last_interval_timestamp_seconds > 180",
        "0m",
        "The agent of {{ $labels.instance }} has recorded no interval for {{ $value | humanizeDuration }}.",
    ),
    (
        "WhylatAgentsAbsent",
        "critical",
        "absent(whylat_build_info)",
        "5m",
        "Prometheus reads no agent at all.",
    ),
    (
        "WhylatConfigurationRefused",
        "warning",
        "whylat_config_last_reload_successful == 0",
        "0m",
        "The agent of {{ $labels.instance }} refused its configuration and keeps the one before.",
    ),
    (
        "WhylatAgentCannotSee",
        "warning",
        "whylat_agent_lacks > 0",
        "5m",
        "The agent of {{ $labels.instance }} cannot see {{ $value }} things of what it is to watch: its log names them.",
    ),
    (
        "WhylatRecordsLost",
        "warning",
        "increase(whylat_agent_lost_records_total[1h]) > 0",
        "0m",
        "The agent of {{ $labels.instance }} lost {{ $value | humanize }} records in an hour.",
    ),
    (
        "WhylatFilesDropped",
        "critical",
        "sum by (instance) (increase(whylat_ship_dropped_files_total[1h]))\n\
         + sum by (instance) (increase(whylat_ship_dropped_intervals_total[1h]))\n\
         + sum by (instance) (increase(whylat_ship_late_rows_total[1h])) > 0",
        "0m",
        "The agent of {{ $labels.instance }} gave up data in the last hour: its spool is full or fails, or its clock was set back.",
    ),
    (
        "WhylatDeliveryDelayed",
        "warning",
        "whylat_ship_delay_seconds > 600",
        "0m",
        "The oldest file of {{ $labels.instance }} has waited {{ $value | humanizeDuration }} for the target.",
    ),
    (
        "WhylatHoursUnmerged",
        "warning",
        "increase(whylat_ship_unmerged_files_total[1h]) > 0",
        "0m",
        "The agent of {{ $labels.instance }} could not merge the files of an hour: the target has many small ones.",
    ),
    (
        "WhylatTelemetryDropped",
        "warning",
        "sum by (instance) (increase(whylat_otlp_dropped_items_total[1h])) > 0\nor sum by (instance) (increase(whylat_otlp_dropped_intervals_total[1h])) > 0",
        "0m",
        "The agent of {{ $labels.instance }} dropped data points or findings in the last hour: the collector refused them or was away, or the agent had no CPU time.",
    ),
];

/// An alert.
pub(crate) struct AlertRule {
    pub(crate) name: String,
    severity: &'static str,
    query: String,
    wait: &'static str,
    summary: String,
    description: String,
    /// Path from the root of the repository.
    pub(crate) page: String,
}

/// Returns all alert rules.
pub(crate) fn all() -> Vec<AlertRule> {
    let of_problems = ALERTS.into_iter().flat_map(of_problem);
    let of_agents = OF_AGENTS
        .iter()
        .map(|(name, severity, query, wait, summary)| AlertRule {
            name: (*name).to_owned(),
            severity,
            query: (*query).to_owned(),
            wait,
            summary: (*summary).to_owned(),
            description: "docs/fleet/monitoring.md says what to look at.".to_owned(),
            page: format!("docs/fleet/monitoring.md#{}", name.to_lowercase()),
        });
    of_problems.chain(of_agents).collect()
}

/// Makes the alert rules of one TCP problem.
fn of_problem((name, alert): (&'static str, &'static str)) -> impl Iterator<Item = AlertRule> {
    let found = PROBLEMS.iter().find(|it| it.name == name);
    let problem = found.unwrap_or_else(|| panic!("no problem {name}"));
    let (sentence, rule) = (problem.sentence(), problem.rule);
    BANDS.into_iter().map(move |(severity, share)| AlertRule {
        name: alert.to_owned(),
        severity,
        query: format!("{RATIO}{{problem=\"{name}\"}} > {share}"),
        wait: "0m",
        summary: format!(
            "{{{{ $labels.application }}}} on {{{{ $labels.instance }}}}: {sentence} \
             ({{{{ $value | humanizePercentage }}}} of the time)."
        ),
        description:
            "Share of the time in which its connections were watched, in the last 15 minutes. \
             `sudo whylat record --comm NAME -d 30` on that host says why."
                .to_owned(),
        page: format!("docs/findings/{rule}.md"),
    })
}

/// Returns the queries of all alerts, and of the rules that they use.
pub(crate) fn queries() -> Vec<String> {
    let of_alerts = all().into_iter().map(|alert| alert.query);
    of_alerts.chain([RATIO_QUERY.to_owned()]).collect()
}

/// Returns the file of alert rules; texts are JSON, which YAML includes.
pub(crate) fn file() -> String {
    let mut file = String::from(
        "# Alerts on what whylat's agents export. Generated: `make golden`.\n\
         # docs/fleet/monitoring.md says how to use them, and what each means.\n\
         groups:\n  - name: whylat\n    rules:\n",
    );
    let quote = |text: &str| serde_json::to_string(text).expect("a string");
    let mut line = |text: String| writeln!(file, "      {text}").expect("memory");
    line(format!("- record: {RATIO}"));
    line(format!("  expr: {}", quote(RATIO_QUERY)));
    for alert in all() {
        line(format!("- alert: {}", alert.name));
        line(format!("  expr: {}", quote(&alert.query)));
        if alert.wait != "0m" {
            line(format!("  for: {}", alert.wait));
        }
        line(format!("  labels: {{severity: {}}}", alert.severity));
        line("  annotations:".to_owned());
        line(format!("    summary: {}", quote(&alert.summary)));
        line(format!("    description: {}", quote(&alert.description)));
        line(format!("    runbook_url: {REPOSITORY}{}", alert.page));
    }
    file
}
