//! Dashboards for Grafana and alerts for Prometheus, made from code. Every metric in them is one that the agent exports.
//!
//! `make golden` writes the files in `packaging/` again; without that, a test says which are not current. Prometheus' own
//! promtool checks and runs the alerts, where it is installed (`scripts/setup test` does).

mod alerts;
#[path = "../common/mod.rs"]
mod common;
mod dashboards;
mod panels;
mod promtool;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use otlp::delivery::SignalState;
use serde_json::json;
use table::Columns;
use table::fleet::FleetInterval;
use whylat_agent::metrics::{Metrics, TextFormat};
use whylat_agent::ship::ShipState;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the generated files: path in the repository, and content.
fn files() -> Vec<(String, String)> {
    let boards = dashboards::all().into_iter().map(|board| {
        let text = serde_json::to_string_pretty(&board.json()).expect("JSON");
        (
            format!("packaging/grafana/{}.json", board.name),
            text + "\n",
        )
    });
    let rules = (
        "packaging/prometheus/whylat.rules.yml".to_owned(),
        alerts::file(),
    );
    boards.chain([rules]).collect()
}

#[test]
fn files_are_current() {
    let is_update = std::env::var_os("WHYLAT_GOLDEN_UPDATE").is_some();
    for (name, made) in files() {
        let path = root().join(&name);
        if is_update {
            fs::write(&path, made).expect("written");
            continue;
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == made,
            "{name} is not current\nhint: `make golden` writes it"
        );
    }
}

/// Returns the names of all metrics on the page of an agent that has measured everything once.
fn exported() -> BTreeSet<String> {
    let metrics = Metrics::new();
    let mut interval = common::interval(common::HOUR_NS, 1);
    interval.coverage.bpf_us = Some(1);
    let measured = json!({"delayed_ack_us": 1, "verdict": "receiver_window", "srtt_us": 1});
    interval
        .intervals
        .push(common::row::<FleetInterval>(measured));
    metrics.interval(&interval);
    metrics.shipping(&ShipState {
        delivered_at: Some(std::time::SystemTime::UNIX_EPOCH),
        ..ShipState::default()
    });
    metrics.telemetry([(otlp::Signal::Metrics, SignalState::default())].into());
    let page = metrics.page(TextFormat::Prometheus).expect("a page");
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .filter_map(|line| Some(line.split_once(' ')?.0.to_owned()))
        .collect()
}

/// Returns the names of metrics in queries.
fn used(queries: &[String]) -> BTreeSet<String> {
    let is_other = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':');
    let words = queries.iter().flat_map(|query| query.split(is_other));
    words
        .filter(|word| word.starts_with("whylat_"))
        .map(|word| word.strip_suffix("_bucket").unwrap_or(word).to_owned())
        .collect()
}

#[test]
fn every_metric_of_dashboards_and_alerts_is_exported() {
    let exported = exported();
    let queries: Vec<_> = dashboards::all()
        .iter()
        .flat_map(dashboards::Dashboard::queries)
        .chain(alerts::queries())
        .collect();
    let used = used(&queries);
    let unknown: Vec<_> = used.difference(&exported).collect();
    assert!(unknown.is_empty(), "the agent does not export {unknown:?}");
    assert!(used.len() >= 20, "{used:?}");
    // what an agent exports and nobody looks at is not worth its export
    let unused: Vec<_> = exported.difference(&used).collect();
    assert_eq!(unused, EXPLAINED_ELSEWHERE, "in no dashboard and no alert");
}

/// Metrics that are for questions of people only.
const EXPLAINED_ELSEWHERE: &[&str] = &[
    "whylat_agent_intervals_total",
    "whylat_agent_polls_total",
    "whylat_config_last_reload_success_timestamp_seconds",
    "whylat_otlp_delivered_items_total",
    "whylat_otlp_failures_total",
    "whylat_otlp_waiting_bytes",
    "whylat_ship_delivered_files_total",
    "whylat_ship_last_delivery_timestamp_seconds",
    "whylat_ship_left_files_total",
];

#[test]
fn every_alert_leads_to_a_page() {
    for alert in alerts::all() {
        let (file, anchor) = alert.page.split_once('#').unwrap_or((&alert.page, ""));
        let text =
            fs::read_to_string(root().join(file)).unwrap_or_else(|why| panic!("{file}: {why}"));
        let headings = text.lines().filter_map(|line| line.strip_prefix("## "));
        let mut anchors = headings.map(|it| it.to_lowercase().replace(' ', "-"));
        assert!(
            anchor.is_empty() || anchors.any(|it| it == anchor),
            "{}",
            alert.page
        );
    }
    let guide = fs::read_to_string(root().join("docs/fleet/monitoring.md")).expect("the guide");
    for alert in alerts::all() {
        assert!(
            guide.contains(&format!("`{}`", alert.name)),
            "{}",
            alert.name
        );
    }
}
