//! Compares a report with the ground truth of a fault.
//!
//! In: the ground truth of [`super::run::FaultRun`], and the JSON report of a recording of it. Out: what was planted,
//! what of it was found, and what was reported beside it, each a rule and its subject: a socket, the requests of a program, or
//! a program. `make accuracy` and the replayed tests judge by it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

/// Part of the planted interval that a finding has to cover.
const LEAST_OVERLAP: f64 = 0.5;

/// From this share of a life on harm is above info (`crates/diagnose/src/report/severity.rs`).
const WARNING_SHARE: f64 = 0.05;

/// Less harm is never above info (`crates/diagnose/src/report/severity.rs`), ns.
const LEAST_HARM_NS: u64 = 40_000_000;

/// The subject of a finding, as the score compares it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum ScoredSubject {
    /// The cookie of a socket.
    Socket(u64),
    /// The requests that go to an address, at one side: `server 10.77.0.2:4711`. Or a process: `process 4711`.
    Named(String),
}

impl ScoredSubject {
    /// Names a service by role and address.
    fn service(role: &str, address: &str) -> Self {
        Self::Named(format!("{role} {address}"))
    }

    /// Names a process by its pid.
    fn process(pid: u64) -> Self {
        Self::Named(format!("process {pid}"))
    }
}

/// A rule, and its subject.
pub type NamedFinding = (String, ScoredSubject);

/// Planted findings, those of them that a report has, and wrong ones beside them.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Findings that must be reported.
    pub planted: BTreeSet<NamedFinding>,
    /// Those of them that were reported for the right time.
    pub found: BTreeSet<NamedFinding>,
    /// Wrong findings above info.
    pub beside: BTreeSet<NamedFinding>,
}

impl Score {
    /// Compares a report with the truth. `answers` are the rules that are never above info: they
    /// are found at any severity, and never wrong.
    pub fn new(truth: &Value, report: &Value, answers: &[&str]) -> Self {
        let claims = claimed_findings(truth);
        let reported = reported_findings(report, answers);
        let is_found = |named: &&NamedFinding| {
            let finding = reported.get(*named);
            finding.is_some_and(|finding| is_as_claimed(finding, claims[*named]))
        };
        let found = claims.keys().filter(is_found).cloned().collect();
        let planted: BTreeSet<NamedFinding> = claims.keys().cloned().collect();
        let mut also_true = suffered_findings(truth);
        also_true.extend(lacks_of_cpu(truth));
        also_true.extend(true_of_workloads(truth));
        let is_beside = |named: &&NamedFinding| {
            let is_answer = answers.contains(&named.0.as_str());
            !is_answer && !planted.contains(*named) && !also_true.contains(*named)
        };
        let beside = reported.keys().filter(is_beside).cloned().collect();
        Score {
            planted,
            found,
            beside,
        }
    }

    /// Returns whether all that was planted was found, and nothing else was reported.
    pub fn is_right(&self) -> bool {
        self.planted == self.found && self.beside.is_empty()
    }
}

/// Returns the elements of a JSON list; none if it is missing.
fn list_values<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// Returns a JSON number; 0 if it is missing.
fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

/// Returns the rule of a finding.
fn rule_name(value: &Value) -> String {
    value["rule"].as_str().unwrap_or_default().to_owned()
}

/// Returns a JSON text; empty if it is missing.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Returns the findings that must be reported, with their claims.
fn claimed_findings(truth: &Value) -> BTreeMap<NamedFinding, &Value> {
    let claims = list_values(truth, "expected");
    let named = claims.flat_map(|claim| {
        let sockets = list_values(claim, "connections").map(|it| number(it, "cookie"));
        let services = list_values(claim, "services");
        let services =
            services.map(|it| ScoredSubject::service(text(it, "role"), text(it, "address")));
        let processes = list_values(claim, "processes").filter_map(Value::as_u64);
        let subjects = sockets.map(ScoredSubject::Socket).chain(services);
        let subjects = subjects.chain(processes.map(ScoredSubject::process));
        subjects.map(move |subject| ((rule_name(claim), subject), claim))
    });
    named.collect()
}

/// Returns every finding that is above info, and every answer.
fn reported_findings<'a>(report: &'a Value, answers: &[&str]) -> BTreeMap<NamedFinding, &'a Value> {
    let is_claim = |finding: &&Value| {
        let is_answer = finding["rule"]
            .as_str()
            .is_some_and(|rule| answers.contains(&rule));
        is_answer || finding["severity"] != "info"
    };
    let findings = list_values(report, "findings").filter(is_claim);
    findings
        .flat_map(|finding| {
            let subjects = finding_subjects(report, finding).into_iter();
            subjects.map(move |subject| ((rule_name(finding), subject), finding))
        })
        .collect()
}

/// A rule on connections and on requests: it names the requests of a service where these show it. A claim names sockets, which
/// UDP has none of that the lab knows.
const OF_SOCKETS: &str = "cpu_contention";

/// Returns the subjects of a finding.
fn finding_subjects(report: &Value, finding: &Value) -> Vec<ScoredSubject> {
    let subject = &finding["subject"];
    let requests = &subject["requests"];
    let (role, address) = (text(requests, "role"), text(requests, "address"));
    let is_of_sockets = rule_name(finding) == OF_SOCKETS && !address.starts_with("udp:");
    if requests.is_object() && !is_of_sockets {
        return vec![ScoredSubject::service(role, address)];
    }
    let sockets = sockets(report, finding);
    match (sockets.as_slice(), subject["process"]["pid"].as_u64()) {
        ([], Some(pid)) => vec![ScoredSubject::process(pid)],
        _ => sockets.into_iter().map(ScoredSubject::Socket).collect(),
    }
}

/// Returns whether a finding is of the process and of the time that a claim says.
fn is_as_claimed(finding: &Value, claim: &Value) -> bool {
    let pid = finding["subject"]["process"]["pid"].as_u64();
    let mut services = list_values(claim, "services").peekable();
    let is_of_process = services.peek().is_none()
        || services.any(|it| pid.is_none() || it["pid"].as_u64() == pid || it["pid"].is_null());
    is_of_process && overlap_share(finding, claim) >= LEAST_OVERLAP
}

/// Returns findings that are true of the workload itself: a client asks one request after another.
fn true_of_workloads(truth: &Value) -> BTreeSet<NamedFinding> {
    let mut also_true = true_of_others(truth);
    for pair in list_values(truth, "roles") {
        let clients = || list_values(pair, "clients");
        let addresses: BTreeSet<&str> = clients()
            .flat_map(|client| list_values(client, "connections"))
            .map(|connection| text(connection, "remote"))
            .chain(pair["address"].as_str())
            .collect();
        let by_udp = pair["address"].as_str().map(|it| format!("udp:{it}"));
        let mut add = |role: &str, rule: &str| {
            let services = addresses.iter().copied().chain(by_udp.as_deref());
            let services = services.map(|address| ScoredSubject::service(role, address));
            also_true.extend(services.map(|service| (rule.to_owned(), service)));
        };
        let ends = clients().map(|client| ("client", client));
        for (role, end) in ends.chain([("server", &pair["server"])]) {
            let rules = list_values(end, "also_true").filter_map(Value::as_str);
            rules.for_each(|rule| add(role, rule));
        }
        for by_settings in list_values(pair, "also_true") {
            add(text(by_settings, "role"), text(by_settings, "rule"));
        }
    }
    also_true
}

/// Returns findings that are true of the programs beside the workload, each of its process.
fn true_of_others(truth: &Value) -> BTreeSet<NamedFinding> {
    let others = list_values(truth, "beside").filter_map(|other| {
        let process = ScoredSubject::process(other["pid"].as_u64()?);
        let rules = list_values(other, "also_true").filter_map(Value::as_str);
        Some(rules.map(move |rule| (rule.to_owned(), process.clone())))
    });
    others.flatten().collect()
}

/// Returns the sockets of a finding; of many, only some are listed.
fn sockets(report: &Value, finding: &Value) -> Vec<u64> {
    let subject = &finding["subject"];
    let listed: Vec<u64> = list_values(subject, "ids")
        .filter_map(Value::as_u64)
        .collect();
    if number(subject, "connections") <= listed.len() as u64 {
        return listed;
    }
    let has_it = |it: &&Value| list_values(it, "findings").any(|rule| *rule == finding["rule"]);
    let connections = list_values(report, "connections").filter(has_it);
    let ids: Vec<u64> = connections.map(|it| number(it, "id")).collect();
    match ids.is_empty() {
        true => listed,
        false => ids,
    }
}

/// Returns the part of the planted interval that the finding names, 0 to 1.
fn overlap_share(finding: &Value, claim: &Value) -> f64 {
    let start = number(finding, "from_ns").max(number(claim, "from_ns"));
    let end = number(finding, "until_ns").min(number(claim, "until_ns"));
    let planted_ns = number(claim, "until_ns").saturating_sub(number(claim, "from_ns"));
    end.saturating_sub(start) as f64 / planted_ns.max(1) as f64
}

/// Returns claims that are true though nothing planted them: the machine was busy, and the role's own thread waited for a
/// CPU, as the scheduler counts it (schedstat). A reader that waits is slow, and so is a server.
fn suffered_findings(truth: &Value) -> BTreeSet<NamedFinding> {
    let mut suffered = BTreeSet::new();
    for pair in list_values(truth, "roles") {
        let near = list_values(pair, "clients").chain(Some(&pair["proxy"]));
        let clients: Vec<&Value> = near
            .flat_map(|role| list_values(role, "connections"))
            .collect();
        let servers: Vec<&Value> = list_values(&pair["server"], "connections").collect();
        let mut add = |end: &[&Value],
                       others: &[&Value],
                       beside_ns: u64,
                       by_softirq_ns: fn(&Value, &Value) -> u64| {
            let lives = end.iter().map(|connection| {
                let own_ns = number(&connection["thread"], "runq_ns");
                let own_ns = own_ns.saturating_sub(by_softirq_ns(truth, connection));
                (own_ns + beside_ns, life_ns(connection))
            });
            let lives: Vec<(u64, u64)> = lives.collect();
            // a connection of half a millisecond may have missed the waits of its program
            let sums = lives
                .iter()
                .fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
            for (connection, life) in end.iter().zip(&lives) {
                if !is_starved(*life) && !is_starved(sums) {
                    continue;
                }
                let socket = |it: &Value| ScoredSubject::Socket(number(it, "cookie"));
                suffered.insert(("cpu_contention".to_owned(), socket(connection)));
                let others = others
                    .iter()
                    .filter(|it| it["local"] == connection["remote"]);
                suffered.extend(others.map(|it| ("slow_reader".to_owned(), socket(it))));
                let service = ScoredSubject::service("client", text(connection, "local"));
                suffered.insert(("remote_slow".to_owned(), service));
            }
        };
        let beside_ns = number(&pair["server"]["thread_beside"], "runq_ns");
        add(&clients, &servers, 0, |_, _| 0);
        add(&servers, &clients, beside_ns, by_softirq_ns);
    }
    suffered
}

/// Returns the same of the requests of programs: by the time in which their threads had some. A server has a request outside of
/// receive calls and while it waits for a CPU; a client within its calls.
fn lacks_of_cpu(truth: &Value) -> BTreeSet<NamedFinding> {
    let mut lacks = BTreeSet::new();
    let in_calls = |it: &Value, kind: &str| number(&it[kind], "in_call_ns");
    for pair in list_values(truth, "roles") {
        let servers: Vec<&Value> = list_values(&pair["server"], "connections").collect();
        let clients = list_values(pair, "clients").flat_map(|it| list_values(it, "connections"));
        let with_requests = |it: &Value, is_server: bool| match is_server {
            true => {
                let receiving_ns = in_calls(it, "recv");
                life_ns(it).saturating_sub(receiving_ns) + number(&it["thread"], "runq_ns")
            }
            false => in_calls(it, "send") + in_calls(it, "recv"),
        };
        lacks.extend(lack_of_datagram_server(pair));
        for (end, is_server) in [(servers, true), (clients.collect(), false)] {
            let waited_ns = end.iter().map(|it| number(&it["thread"], "runq_ns")).sum();
            let base_ns = end.iter().map(|it| with_requests(it, is_server)).sum();
            if waited_ns >= LEAST_HARM_NS && is_starved((waited_ns, base_ns)) {
                let sockets = end.iter().map(|it| number(it, "cookie"));
                let sockets = sockets.map(ScoredSubject::Socket);
                lacks.extend(sockets.map(|it| (OF_SOCKETS.to_owned(), it)));
            }
        }
    }
    lacks
}

/// Returns the same of the requests of a server over UDP, which is one thread.
fn lack_of_datagram_server(pair: &Value) -> Option<NamedFinding> {
    let server = &pair["server"];
    let waited_ns = server["thread"]["runq_ns"].as_u64()?;
    let life_ns = number(server, "end_ns").saturating_sub(number(server, "start_ns"));
    let service = ScoredSubject::service("server", &format!("udp:{}", text(pair, "address")));
    let is_true = waited_ns >= LEAST_HARM_NS && is_starved((waited_ns, life_ns));
    is_true.then(|| (OF_SOCKETS.to_owned(), service))
}

/// Returns how long a connection was open, in nanoseconds.
fn life_ns(connection: &Value) -> u64 {
    number(connection, "closed_ns").saturating_sub(number(connection, "opened_ns"))
}

/// Returns whether a thread waited for a CPU longer than is information only, of its duration.
fn is_starved((waited_ns, life_ns): (u64, u64)) -> bool {
    waited_ns as f64 > WARNING_SHARE * life_ns as f64
}

/// Returns the CPU time that a planted flood's ksoftirqd took from the server while the connection existed, ns.
fn by_softirq_ns(truth: &Value, connection: &Value) -> u64 {
    let life = number(connection, "opened_ns")..=number(connection, "closed_ns");
    let readings = list_values(truth, "beside").flat_map(|role| list_values(role, "ksoftirqd_ns"));
    let readings =
        readings.filter_map(|reading| Some((reading[0].as_u64()?, reading[1].as_u64()?)));
    let within: Vec<u64> = readings
        .filter(|(at, _)| life.contains(at))
        .map(|(_, ns)| ns)
        .collect();
    let first_and_last = within.first().zip(within.last());
    first_and_last.map_or(0, |(first, last)| last.saturating_sub(*first))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Makes the truth of one planted fault.
    fn truth() -> Value {
        json!({
            "expected": [{ "rule": "slow_reader", "from_ns": 100, "until_ns": 200, "connections": [{ "cookie": 1 }] }],
            "roles": [{
                "clients": [{ "connections": [{ "cookie": 1, "local": "a", "remote": "b", "opened_ns": 0, "closed_ns": 300 }] }],
                "proxy": null,
                "server": { "connections": [
                    { "cookie": 2, "local": "b", "remote": "a", "opened_ns": 0, "closed_ns": 300, "thread": { "runq_ns": 30 } },
                ]},
            }],
            "beside": [],
        })
    }

    /// Makes a report with one finding on a connection.
    fn report(rule: &str, severity: &str, cookie: u64, until_ns: u64) -> Value {
        json!({
            "findings": [{
                "rule": rule, "severity": severity, "from_ns": 100, "until_ns": until_ns,
                "subject": { "ids": [cookie], "connections": 1 },
            }],
            "connections": [],
        })
    }

    /// Returns how many planted faults the report finds, and how many findings are beside them.
    fn score(report: &Value) -> (usize, usize) {
        let score = Score::new(&truth(), report, &["path_limited"]);
        assert_eq!(score.planted.len(), 1);
        (score.found.len(), score.beside.len())
    }

    #[test]
    fn planted_fault_is_found_in_its_interval() {
        assert_eq!(score(&report("slow_reader", "warning", 1, 150)), (1, 0));
        assert_eq!(score(&report("slow_reader", "warning", 1, 149)), (0, 0));
        assert_eq!(score(&report("slow_reader", "info", 1, 200)), (0, 0));
    }

    #[test]
    fn machine_noise_and_answers_are_no_wrong_findings() {
        assert_eq!(score(&report("small_writes", "warning", 1, 200)), (0, 1));
        assert_eq!(score(&report("path_limited", "info", 1, 200)), (0, 0));
        // its thread waited for a CPU for a tenth of its duration
        assert_eq!(score(&report("cpu_contention", "warning", 2, 200)), (0, 0));
        assert_eq!(score(&report("cpu_contention", "warning", 1, 200)), (0, 1));
    }
    /// Makes a report with one finding on requests.
    fn request_report(rule: &str, pid: u64, role: &str) -> Value {
        json!({
            "findings": [{
                "rule": rule, "severity": "warning", "from_ns": 100, "until_ns": 200,
                "subject": {
                    "ids": [1], "connections": 1, "process": { "pid": pid },
                    "requests": { "role": role, "address": "b" },
                },
            }],
            "connections": [],
        })
    }

    #[test]
    fn service_is_named_by_side_address_and_process() {
        let services = json!([{ "role": "server", "address": "b", "pid": 7 }]);
        let claim =
            json!({ "rule": "timer_wait", "from_ns": 100, "until_ns": 200, "services": services });
        let truth = json!({ "expected": [claim], "roles": [] });
        let score = |report: &Value| {
            let score = Score::new(&truth, report, &[]);
            (score.found.len(), score.beside.len())
        };
        assert_eq!(score(&request_report("timer_wait", 7, "server")), (1, 0));
        assert_eq!(score(&request_report("timer_wait", 8, "server")), (0, 0));
        assert_eq!(score(&request_report("timer_wait", 7, "client")), (0, 1));
    }

    #[test]
    fn lack_of_cpu_of_requests_is_one_of_their_sockets() {
        let mut report = request_report("cpu_contention", 7, "server");
        report["findings"][0]["subject"]["ids"] = json!([2]);
        let claims = json!([{ "rule": "cpu_contention", "from_ns": 100, "until_ns": 200, "connections": [{ "cookie": 2 }] }]);
        let truth = json!({ "expected": claims, "roles": [] });
        let score = Score::new(&truth, &report, &[]);
        assert_eq!((score.found.len(), score.beside.len()), (1, 0));
    }

    #[test]
    fn requests_that_lacked_a_cpu_are_expected_to_say_so() {
        // 50 ms without a CPU in 2 s; 1.9 s are between requests
        let connection = |runq_ns: u64| {
            json!({
                "cookie": 2, "opened_ns": 0, "closed_ns": 2_000_000_000, "thread": { "runq_ns": runq_ns },
                "recv": { "in_call_ns": 1_900_000_000 },
            })
        };
        let report = report("cpu_contention", "warning", 2, 200);
        let beside = |runq_ns: u64| {
            let server = json!({ "connections": [connection(runq_ns)] });
            let truth = json!({ "expected": [], "roles": [{ "clients": [], "proxy": null, "server": server }] });
            Score::new(&truth, &report, &[]).beside.len()
        };
        assert_eq!((beside(50_000_000), beside(39_000_000)), (0, 1));
    }

    #[test]
    fn claims_of_the_workload_are_expected() {
        let mut truth = truth();
        let report = request_report("serial_round_trips", 9, "client");
        let beside = |truth: &Value| Score::new(truth, &report, &[]).beside.len();
        assert_eq!(beside(&truth), 1);
        truth["roles"][0]["clients"][0]["also_true"] = json!(["serial_round_trips"]);
        assert_eq!(beside(&truth), 0);
    }

    #[test]
    fn what_the_settings_of_a_scene_make_true_is_expected_of_their_end_alone() {
        let mut truth = truth();
        truth["roles"][0]["also_true"] =
            json!([{ "role": "client", "rule": "slow_start_after_idle" }]);
        let beside = |role: &str| {
            let report = request_report("slow_start_after_idle", 9, role);
            Score::new(&truth, &report, &[]).beside.len()
        };
        assert_eq!((beside("client"), beside("server")), (0, 1));
    }

    #[test]
    fn cpu_contention_of_a_datagram_server_is_true_if_its_thread_waited_for_a_cpu() {
        let requests = json!({ "role": "server", "address": "udp:10.77.0.2:4711" });
        let subject = json!({ "requests": requests, "connections": 2, "ids": [7, 8] });
        let report = json!({ "findings": [
            { "rule": "cpu_contention", "severity": "critical", "from_ns": 0, "until_ns": 1, "subject": subject },
        ] });
        let beside = |runq_ns: u64| {
            let server =
                json!({ "thread": { "runq_ns": runq_ns }, "start_ns": 0, "end_ns": 900_000_000 });
            let pair = json!({ "address": "10.77.0.2:4711", "clients": [], "server": server });
            let truth = json!({ "expected": [], "roles": [pair], "beside": [] });
            Score::new(&truth, &report, &[]).beside.len()
        };
        assert_eq!((beside(46_000_000), beside(44_000_000)), (0, 1));
    }

    #[test]
    fn claims_of_programs_beside_are_expected_of_these_alone() {
        let subject = json!({ "process": { "pid": 9 }, "connections": 1, "ids": [] });
        let report = json!({ "findings": [
            { "rule": "udp_drops", "severity": "critical", "from_ns": 0, "until_ns": 1, "subject": subject },
        ] });
        let beside = |pid: u64| {
            let other = json!({ "pid": pid, "also_true": ["udp_drops"] });
            let truth = json!({ "expected": [], "roles": [], "beside": [other] });
            Score::new(&truth, &report, &[]).beside.len()
        };
        assert_eq!((beside(9), beside(8)), (0, 1));
    }
}
