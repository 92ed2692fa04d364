//! Three dashboards: all hosts, one service on all hosts, one host.

use serde_json::{Value, json};

use super::panels::{Panel, PanelKind};

const LINES: PanelKind = PanelKind::Lines { is_stacked: false };
const PARTS: PanelKind = PanelKind::Lines { is_stacked: true };

/// A dashboard.
pub(crate) struct Dashboard {
    /// Name of its file, and the end of its id.
    pub(crate) name: &'static str,
    title: &'static str,
    /// Label, title, and the metric that has its values.
    variables: Vec<(&'static str, &'static str, &'static str)>,
    panels: Vec<Panel>,
}

const HOST: (&str, &str, &str) = ("instance", "Host", "whylat_build_info");
const SERVICE: (&str, &str, &str) = ("application", "Service", "whylat_tcp_watched_seconds_total");

/// Returns all dashboards.
pub(crate) fn all() -> Vec<Dashboard> {
    vec![fleet(), service(), host()]
}

/// Makes the dashboard of all services.
fn fleet() -> Dashboard {
    let all = "";
    let mut panels = vec![
        limited(all, "problem"),
        worst(
            all,
            "application",
            "Worst services",
            ("service", "application"),
        ),
        worst(all, "instance", "Worst hosts", ("host", "instance")),
        alerts(),
    ];
    panels.extend([
        stages(all),
        retransmitted(all, "application"),
        bytes(all),
        round_trips(all),
        connections(all),
    ]);
    panels.extend(agents(all));
    Dashboard {
        name: "fleet",
        title: "whylat: fleet",
        variables: Vec::new(),
        panels,
    }
}

/// Makes the dashboard of one service.
fn service() -> Dashboard {
    let of = "application=~\"$application\"";
    Dashboard {
        name: "service",
        title: "whylat: service",
        variables: vec![SERVICE],
        panels: vec![
            limited(of, "problem"),
            worst(of, "instance", "Worst hosts", ("host", "instance")),
            limited(of, "instance"),
            stages(of),
            retransmitted(of, "instance"),
            bytes(of),
            round_trips(of),
        ],
    }
}

/// Makes the dashboard of one host.
fn host() -> Dashboard {
    let of = "instance=~\"$instance\"";
    let mut panels = vec![
        limited(of, "problem"),
        worst(
            of,
            "application",
            "Worst services",
            ("service", "application"),
        ),
        limited(of, "application"),
        stages(of),
        retransmitted(of, "application"),
        bytes(of),
        round_trips(of),
        connections(of),
    ];
    panels.extend(agents(of));
    Dashboard {
        name: "host",
        title: "whylat: host",
        variables: vec![HOST],
        panels,
    }
}

/// Returns the query of problem seconds for each second that connections were watched.
fn share(selector: &str, by: &str) -> String {
    let limited = rate("whylat_tcp_limited_seconds_total", selector);
    let watched = rate("whylat_tcp_watched_seconds_total", selector);
    match by {
        "problem" => format!("sum by (problem) ({limited}) / on () group_left () sum ({watched})"),
        _ => format!("sum by ({by}) ({limited}) / sum by ({by}) ({watched})"),
    }
}

/// Returns the query of a metric's rate.
fn rate(metric: &str, selector: &str) -> String {
    format!("rate({metric}{{{selector}}}[$__rate_interval])")
}

/// Makes the panel of problems by their share of time.
fn limited(selector: &str, by: &'static str) -> Panel {
    let (title, legend) = match by {
        "problem" => ("Share of time with a problem, by problem", "{{problem}}"),
        "instance" => ("Share of time with a problem, by host", "{{instance}}"),
        _ => (
            "Share of time with a problem, by service",
            "{{application}}",
        ),
    };
    Panel {
        title,
        description: "Of the time in which connections were watched. Above 5 % is a warning, above 50 % critical. One \
            connection may have several problems at once.",
        kind: LINES,
        unit: "percentunit",
        width: 12,
        queries: vec![(share(selector, by), legend)],
        link: None,
    }
}

/// Makes the table of what has most problems, with links to its dashboard.
fn worst(
    selector: &str,
    by: &'static str,
    title: &'static str,
    link: (&'static str, &'static str),
) -> Panel {
    let legend = if by == "instance" {
        "{{instance}}"
    } else {
        "{{application}}"
    };
    Panel {
        title,
        description: "Ten with the largest share of time with a problem. Click one for its dashboard.",
        kind: PanelKind::Bars,
        unit: "percentunit",
        width: 12,
        queries: vec![(
            format!("sort_desc(topk(10, {}))", share(selector, by)),
            legend,
        )],
        link: Some(link),
    }
}

/// Makes the panel of firing alerts.
fn alerts() -> Panel {
    Panel {
        title: "Alerts that fire",
        description: "By packaging/prometheus/whylat.rules.yml.",
        kind: PanelKind::Bars,
        unit: "short",
        width: 12,
        queries: vec![(
            "count by (alertname, severity) (ALERTS{alertname=~\"Whylat.*\",alertstate=\"firing\"})".to_owned(),
            "{{alertname}} ({{severity}})",
        )],
        link: None,
    }
}

/// Makes the panel of stages.
fn stages(selector: &str) -> Panel {
    let held = rate("whylat_tcp_held_intervals_total", selector);
    Panel {
        title: "Stage that held connections most",
        description: "Intervals of connections a minute, by the stage that took most of their time.",
        kind: PARTS,
        unit: "short",
        width: 12,
        queries: vec![(format!("sum by (stage) ({held}) * 60"), "{{stage}}")],
        link: None,
    }
}

/// Makes the panel of the retransmitted share.
fn retransmitted(selector: &str, by: &'static str) -> Panel {
    let repeated = rate("whylat_tcp_retransmitted_segments_total", selector);
    let sent = rate("whylat_tcp_sent_segments_total", selector);
    let legend = if by == "instance" {
        "{{instance}}"
    } else {
        "{{application}}"
    };
    Panel {
        title: "Share of segments retransmitted",
        description: "Of all segments sent.",
        kind: LINES,
        unit: "percentunit",
        width: 12,
        queries: vec![(
            format!("sum by ({by}) ({repeated}) / sum by ({by}) ({sent})"),
            legend,
        )],
        link: None,
    }
}

/// Makes the panel of bytes a second.
fn bytes(selector: &str) -> Panel {
    let sum = |metric| format!("sum ({})", rate(metric, selector));
    Panel {
        title: "Bytes",
        description: "Acknowledged by peers, and received.",
        kind: LINES,
        unit: "Bps",
        width: 12,
        queries: vec![
            (sum("whylat_tcp_acked_bytes_total"), "acknowledged"),
            (sum("whylat_tcp_received_bytes_total"), "received"),
        ],
        link: None,
    }
}

/// Makes the panel of RTT percentiles.
fn round_trips(selector: &str) -> Panel {
    let buckets = rate("whylat_tcp_rtt_seconds_bucket", selector);
    let quantile = |share: &str| format!("histogram_quantile ({share}, sum by (le) ({buckets}))");
    Panel {
        title: "Round-trip times",
        description: "Of connections with activity, in steps of four; OTLP has finer ones.",
        kind: LINES,
        unit: "s",
        width: 12,
        queries: vec![(quantile("0.5"), "p50"), (quantile("0.99"), "p99")],
        link: None,
    }
}

/// Makes the panel of open connections.
fn connections(selector: &str) -> Panel {
    Panel {
        title: "Connections",
        description: "Open at the end of the last interval.",
        kind: LINES,
        unit: "short",
        width: 12,
        queries: vec![(
            format!("sum (whylat_tcp_connections{{{selector}}})"),
            "open",
        )],
        link: None,
    }
}

/// Makes the panels of the agents' cost and of data that they could not see or deliver.
fn agents(selector: &str) -> Vec<Panel> {
    let of = |metric: &str| format!("{metric}{{{selector}}}");
    let hour = |metric: &str| format!("sum (increase({metric}{{{selector}}}[1h]))");
    let count = |condition: String| format!("count ({condition}) or vector(0)");
    let numbers = |title, description, unit, queries| Panel {
        title,
        description,
        kind: PanelKind::Numbers,
        unit,
        width: 6,
        queries,
        link: None,
    };
    let last = of("whylat_agent_last_interval_timestamp_seconds");
    let reload = of("whylat_config_last_reload_successful");
    vec![
        numbers(
            "Agents",
            "Late: no interval has begun within three minutes.",
            "short",
            vec![
                (
                    format!("count ({}) or vector(0)", of("whylat_build_info")),
                    "read",
                ),
                (count(format!("time() - {last} > 180")), "late"),
                (count(format!("{reload} == 0")), "configuration refused"),
                (
                    count(format!("{} > 0", of("whylat_agent_lacks"))),
                    "cannot see all",
                ),
            ],
        ),
        numbers(
            "Lost in an hour",
            "Nothing is lost in silence: fleet_coverage has it, too.",
            "short",
            vec![
                (hour("whylat_agent_lost_records_total"), "records"),
                (hour("whylat_ship_dropped_files_total"), "files"),
                (hour("whylat_ship_dropped_intervals_total"), "intervals"),
                (hour("whylat_ship_late_rows_total"), "late rows"),
                (hour("whylat_otlp_dropped_items_total"), "OTLP items"),
            ],
        ),
        numbers(
            "Oldest reading",
            "Longest time between two readings of one connection.",
            "s",
            vec![(
                format!("max ({})", of("whylat_agent_poll_gap_seconds")),
                "longest gap",
            )],
        ),
        numbers(
            "Waiting for the target",
            "Files in spools, and how long the oldest waits.",
            "short",
            vec![
                (
                    format!("sum ({})", of("whylat_ship_waiting_files")),
                    "files",
                ),
                (
                    format!("max ({})", of("whylat_ship_delay_seconds")),
                    "oldest (s)",
                ),
                (hour("whylat_ship_failures_total"), "failures in an hour"),
                (
                    format!("sum ({})", of("whylat_otlp_waiting_items")),
                    "OTLP items",
                ),
            ],
        ),
        cost(selector),
        Panel {
            title: "Agents' memory and spool",
            description: "The largest of all hosts.",
            kind: LINES,
            unit: "bytes",
            width: 12,
            queries: vec![
                (
                    format!("max ({})", of("whylat_agent_resident_memory_bytes")),
                    "memory",
                ),
                (format!("max ({})", of("whylat_ship_spool_bytes")), "spool"),
                (
                    format!(
                        "sum ({})",
                        rate("whylat_ship_delivered_bytes_total", selector)
                    ),
                    "delivered a second",
                ),
            ],
            link: None,
        },
    ]
}

/// Makes the panel of the agent's cost.
fn cost(selector: &str) -> Panel {
    let cpu = rate("whylat_agent_cpu_seconds_total", selector);
    let bpf = rate("whylat_agent_bpf_seconds_total", selector);
    Panel {
        title: "Agents' CPU",
        description: "Share of one CPU: the process, and its BPF programs where the kernel measures them.",
        kind: LINES,
        unit: "percentunit",
        width: 12,
        queries: vec![
            (format!("quantile (0.5, {cpu})"), "process (p50)"),
            (format!("max ({cpu})"), "process (max)"),
            (format!("max ({bpf})"), "BPF (max)"),
        ],
        link: None,
    }
}

impl Dashboard {
    /// Returns all queries of the dashboard.
    pub(crate) fn queries(&self) -> Vec<String> {
        let of_panels = self.panels.iter().flat_map(|panel| &panel.queries);
        of_panels.map(|(query, _)| query.clone()).collect()
    }

    /// Returns the dashboard as Grafana imports it.
    pub(crate) fn json(&self) -> Value {
        let all = json!({
            "title": "whylat", "type": "dashboards", "tags": ["whylat"], "asDropdown": false,
            "includeVars": true, "keepTime": true, "icon": "external link",
        });
        json!({
            "title": self.title,
            "uid": format!("whylat-{}", self.name),
            "tags": ["whylat", "tcp"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "refresh": "1m",
            "time": {"from": "now-6h", "to": "now"},
            "timezone": "browser",
            "links": [all],
            "templating": {"list": self.variables()},
            "annotations": {"list": []},
            "panels": self.placed(),
        })
    }

    /// Returns the dashboard's variables.
    fn variables(&self) -> Vec<Value> {
        let source = json!({
            "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {},
        });
        let variable = |(label, title, metric): &(&str, &str, &str)| {
            json!({
                "name": label, "label": title, "type": "query",
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "query": {"query": format!("label_values({metric}, {label})"), "refId": label},
                "refresh": 2, "includeAll": true, "multi": true, "allValue": ".*",
                "current": {"text": "All", "value": "$__all"}, "sort": 1,
            })
        };
        std::iter::once(source)
            .chain(self.variables.iter().map(variable))
            .collect()
    }

    /// Returns the panels in lines of 24 columns.
    fn placed(&self) -> Vec<Value> {
        let (mut x, mut y, mut tallest) = (0, 0, 0);
        let mut place = |panel: &Panel| {
            if x + panel.width > 24 {
                (x, y, tallest) = (0, y + tallest, 0);
            }
            let at = (x, y);
            (x, tallest) = (x + panel.width, tallest.max(panel.height()));
            at
        };
        let numbered = self.panels.iter().enumerate();
        numbered
            .map(|(number, panel)| panel.json(number + 1, place(panel)))
            .collect()
    }
}
