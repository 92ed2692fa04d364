//! Rules and queries are checked by Prometheus' own tool.

use std::path::Path;
use std::process::Command;

use super::{alerts, dashboards, root};

/// Runs promtool; `None`: it is not installed.
fn promtool(arguments: &[&str], folder: &Path) -> Option<(bool, String)> {
    let run = Command::new("promtool")
        .args(arguments)
        .current_dir(folder)
        .output();
    let Ok(output) = run else {
        eprintln!("skipped: no promtool\nhint: apt-get install prometheus");
        return None;
    };
    let text = [output.stdout, output.stderr].concat();
    Some((
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    ))
}

#[test]
fn alerts_fire_and_are_quiet() {
    let folder = root().join("packaging/prometheus");
    let run = promtool(&["test", "rules", "whylat.rules.test.yml"], &folder);
    if let Some((is_sound, text)) = run {
        assert!(is_sound, "{text}");
    }
    let tests = std::fs::read_to_string(folder.join("whylat.rules.test.yml")).expect("tests");
    for alert in alerts::all() {
        let has = |line: &str| tests.lines().any(|it| it.trim() == line);
        assert!(
            has(&format!("alertname: {}", alert.name)),
            "no test of {}",
            alert.name
        );
    }
}

/// Queries of dashboards have variables of Grafana; with values, they are rules.
#[test]
fn queries_are_promql() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut rules = String::from("groups:\n  - name: queries\n    rules:\n");
    let boards = dashboards::all();
    for (number, query) in boards
        .iter()
        .flat_map(dashboards::Dashboard::queries)
        .enumerate()
    {
        let query = query
            .replace("$__rate_interval", "5m")
            .replace("$instance", ".*");
        let query = query.replace("$application", ".*");
        assert!(!query.contains('$'), "{query}");
        let query = serde_json::to_string(&query).expect("a string");
        rules += &format!("      - record: query:{number}\n        expr: {query}\n");
    }
    std::fs::write(scratch.path().join("rules.yml"), rules).expect("written");
    if let Some((is_sound, text)) = promtool(&["check", "rules", "rules.yml"], scratch.path()) {
        assert!(is_sound, "{text}");
    }
}
