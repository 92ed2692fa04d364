//! The JSON report of a recording, with the connections and findings found by socket.

use std::path::{Path, PathBuf};

use serde_json::Value;
use table::{Columns, Table};
use tempfile::TempDir;

use crate::process::{finish, whylat};

/// The JSON report of a recording, with the recording itself.
#[derive(Debug)]
pub struct Report {
    /// The report, as `whylat report --format json` prints it.
    pub json: Value,
    path: PathBuf,
    _scratch: Option<TempDir>,
}

impl Report {
    /// Makes the report of the recording `r.whylat` in a temporary directory.
    pub fn from_scratch(scratch: TempDir) -> Self {
        let path = scratch.path().join("r.whylat");
        Report {
            _scratch: Some(scratch),
            ..Report::at(path)
        }
    }

    /// Makes the report of the recording at this path.
    pub fn at(path: PathBuf) -> Self {
        Report {
            json: json_report(&path),
            path,
            _scratch: None,
        }
    }

    /// Returns a file that the recorded program wrote beside the recording.
    pub fn file_beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    /// Returns the recording's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the recording's tables.
    pub fn recording(&self) -> table::Recording {
        table::Recording::open(&self.path).expect("the recording opens")
    }

    /// Returns all rows of a table that is known to be small.
    pub fn rows<T: Table>(&self) -> Vec<T> {
        let recording = self.recording();
        let mut rows = Vec::new();
        recording.scan::<T>(|columns| rows.extend((0..columns.len()).map(|row| columns.row(row))));
        assert!(
            recording.problems().is_empty(),
            "{:?}",
            recording.problems()
        );
        rows
    }

    /// Returns all connections.
    pub fn connections(&self) -> &Vec<Value> {
        self.json["connections"].as_array().expect("connections")
    }

    /// Returns the connection with this socket cookie.
    #[track_caller]
    pub fn by_cookie(&self, cookie: u64) -> &Value {
        let found = self.connections().iter().find(|c| c["id"] == cookie);
        found.unwrap_or_else(|| panic!("socket {cookie} is not in the report: {}", self.brief()))
    }

    /// Returns the sockets with this local and remote port.
    pub fn by_ports(&self, local: Option<u16>, remote: Option<u16>) -> Vec<&Value> {
        let has = |c: &Value, end: &str, port: Option<u16>| {
            let address = c[end].as_str().unwrap_or_default();
            port.is_none_or(|port| address.ends_with(&format!(":{port}")))
        };
        let all = self.connections().iter();
        all.filter(|c| has(c, "local", local) && has(c, "remote", remote))
            .collect()
    }

    /// Returns the findings with this socket as their subject.
    pub fn findings(&self, cookie: u64) -> Vec<&Value> {
        let all = self.json["findings"].as_array().expect("findings").iter();
        let own = self.connections().iter().find(|c| c["id"] == cookie);
        all.filter(|finding| {
            let subject = &finding["subject"];
            let ids = subject["ids"].as_array().expect("ids");
            // Of many, not all are listed.
            let more = number(subject, "/connections") > ids.len() as u64;
            let rules = own.and_then(|own| own["findings"].as_array());
            let named = rules.is_some_and(|rules| rules.contains(&finding["rule"]));
            ids.iter().any(|id| *id == cookie) || (more && named)
        })
        .collect()
    }

    /// Returns the finding of a rule about this socket.
    pub fn finding(&self, cookie: u64, rule: &str) -> Option<&Value> {
        let findings = self.findings(cookie);
        findings.into_iter().find(|finding| finding["rule"] == rule)
    }

    /// Returns the findings above info about this socket, as `rule direction severity`.
    pub fn findings_above_info(&self, cookie: u64) -> Vec<String> {
        let above = |finding: &&Value| finding["severity"] != "info";
        let findings = self.findings(cookie).into_iter().filter(above);
        findings.map(name).collect()
    }

    /// Demands these rules with more than info about this socket, each as `rule direction`; those
    /// in `also` may come, too. That the test machine's CPUs were busy is for tests to judge that
    /// know it from the scheduler: `faults`.
    #[track_caller]
    pub fn assert_claims(&self, cookie: u64, wanted: &[&str], also: &[&str]) {
        let claims = self.findings_above_info(cookie);
        let is = |claim: &String, rule: &&str| claim.starts_with(&format!("{rule} "));
        let found = |rule: &&&str| claims.iter().any(|claim| is(claim, rule));
        let missing: Vec<_> = wanted.iter().filter(|rule| !found(rule)).collect();
        let busy = &["cpu_contention"];
        let allowed = || wanted.iter().chain(also).chain(busy);
        let known = |claim: &&String| allowed().any(|rule| is(claim, rule));
        let wrong: Vec<_> = claims.iter().filter(|claim| !known(claim)).collect();
        assert!(
            missing.is_empty() && wrong.is_empty(),
            "socket {cookie}: missing {missing:?}, unwanted {wrong:?} in {}",
            self.brief()
        );
    }

    /// Returns a summary, short enough for a failure's message.
    pub fn brief(&self) -> String {
        let mut lines = Vec::new();
        for c in self.connections() {
            let stages = c["stages"].as_object().into_iter().flatten();
            let stages: Vec<String> = stages
                .map(|(stage, value)| (stage, value["share"].as_f64().unwrap_or(0.0)))
                .filter(|(_, share)| *share >= 0.001)
                .map(|(stage, share)| format!("{stage} {:.1} %", share * 100.0))
                .collect();
            let reader = c["receive"]["reader_slow"]["share"].as_f64();
            lines.push(format!(
                "  {} {} > {} {} {}: {}; reader slow {reader:?}",
                c["id"],
                text(c, "local"),
                text(c, "remote"),
                text(c, "role"),
                c["tcp"]["congestion"],
                stages.join(", ")
            ));
        }
        for finding in self.json["findings"].as_array().into_iter().flatten() {
            let ids = &finding["subject"]["ids"];
            lines.push(format!(
                "  {} {ids}: {}",
                name(finding),
                text(finding, "headline")
            ));
        }
        for undecided in self.json["undecided"].as_array().into_iter().flatten() {
            lines.push(format!("  undecided: {}", text(undecided, "headline")));
        }
        format!("\n{}", lines.join("\n"))
    }

    /// Demands that nothing was lost and everything is accounted for. A softirq may bring a change
    /// of state while another one is reported on its CPU: then the kernel runs no program, and
    /// counts that. Beside bursts of a real-time thread, four were lost in a recording of 30,000
    /// connections.
    #[track_caller]
    pub fn assert_whole(&self) {
        const NOT_RUN_MOST: u64 = 4;
        for loss in self.json["loss"].as_array().expect("loss") {
            assert_eq!(loss["residual"], 0, "{loss}");
            let is_of_events = loss["probe"] == "tcp_events";
            let not_run = loss["lost"]["reentered"].as_u64();
            let not_run = not_run.filter(|it| is_of_events && *it <= NOT_RUN_MOST);
            assert_eq!(loss["lost_total"], not_run.unwrap_or(0), "{loss}");
        }
        assert_eq!(self.json["closed"], "in_order");
    }

    /// Demands that nothing was lost. An error says that only the kernel ran no program inside
    /// another: then the case must be repeated.
    #[track_caller]
    pub fn whole_but_for_the_kernel(&self) -> Result<(), String> {
        let all = self.json["loss"].as_array().expect("loss");
        if all.iter().all(|loss| loss["lost_total"] == 0) {
            self.assert_whole();
            return Ok(());
        }
        for loss in all {
            assert_eq!(loss["residual"], 0, "{loss}");
            let not_run = loss["lost"]["reentered"].as_u64().unwrap_or(0);
            assert_eq!(loss["lost_total"], not_run, "{loss}");
        }
        assert_eq!(self.json["closed"], "in_order");
        Err("the kernel ran no program inside itself".to_owned())
    }
}

/// Returns the rule of a finding.
fn name(finding: &Value) -> String {
    let word = |key| text(finding, key);
    format!(
        "{} {} {}",
        word("rule"),
        word("direction"),
        word("severity")
    )
}

/// Runs `whylat report --format json`, and returns the report.
pub fn json_report(path: &Path) -> Value {
    ask(path, "")
}

/// Returns the JSON of `whylat report` with other options.
pub fn ask(path: &Path, question: &str) -> Value {
    let mut report = whylat("report --format json");
    let output = finish(report.args(question.split_whitespace()).arg(path));
    assert!(matches!(output.code, Some(0 | 3)), "{output:?}");
    serde_json::from_str(&output.out).unwrap_or_else(|why| panic!("{why}: {}", output.out))
}

/// Returns the groups of an answer.
pub fn groups(answer: &Value) -> &Vec<Value> {
    answer["groups"].as_array().expect("groups")
}

/// Returns a number in a JSON value, by JSON pointer.
#[track_caller]
pub fn number(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no number at {pointer} in {value:.2000}"))
}

/// Returns a text field of a JSON value.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns share of a stage; `None` when it was not measured.
pub fn share(connection: &Value, stage: &str) -> Option<f64> {
    connection["stages"][stage]["share"].as_f64()
}

/// Returns the time in a stage, ns.
#[track_caller]
pub fn stage_ns(connection: &Value, stage: &str) -> u64 {
    number(connection, &format!("/stages/{stage}/ns"))
}
