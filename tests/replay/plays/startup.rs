//! The recipe "Inefficient TCP/IP Synchronization": a client starts slowly, and the recording of its
//! command channel says why, at both ends: by the finding, by the two populations of waits on its
//! socket, and by the counters that the programs keep through the ITT API. Each fix is measured.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use table::TaskKind;
use table::manifest::ProbeState;
use table::tables::{Counter, Task, Wait};

use crate::play::{Outcome, Play, under, under_both};
use crate::shrink::{CONNECTIONS, LeftOut, REPORTED};
use testbed::instrumented::ToolRun;
use testbed::program;
use testbed::report::{Report, ask, groups, number, text};

pub fn plays() -> Vec<Play> {
    let named = under_both(
        "startup",
        "is_named",
        CONNECTIONS,
        slow_start_in_short,
        named_at_one_end,
    );
    let reported = under_both(
        "startup",
        "is_reported",
        REPORTED,
        slow_start_call_by_call,
        reported_at_both_ends,
    );
    let reported = reported.map(|play| Play {
        leaves_out: Some(other_waits),
        ..play
    });
    let own_fix = under(
        "cubic",
        "startup",
        "the_recipes_own_fix",
        CONNECTIONS,
        own_fix,
        finding_stays,
    );
    named.into_iter().chain(reported).chain([own_fix]).collect()
}

/// Bytes of a header and of an answer (`crates/lab/src/workload/commands`).
const HEADER_BYTES: u64 = 8;
const ANSWER_BYTES: u64 = 24;
/// Most bytes of a small command's body.
const SMALL_BYTES: u64 = 96;
/// `TCP_DELACK_MIN` less a jiffy, as the finding counts an expired timer.
const LEAST_STALL_NS: u64 = 36_000_000;
/// A percentile's relative error, and as much for what a call is longer than the wait in it.
const PERCENT_ABOVE: u64 = 4;

fn record(words: &str) -> Outcome {
    let words = format!("lab fault vtune_startup {words}");
    let mut argv = vec![program()];
    argv.extend(words.split_whitespace());
    let run = ToolRun::new(program(), "--detail waits", &argv).end();
    run.output.assert_status(0);
    assert_eq!(run.coverage(), ProbeState::On);
    let account = run.account();
    assert_eq!(account.lost_total(), 0, "{account:?}");
    Outcome {
        truth: run.truths().remove(0),
        report: Report::from_scratch(run.scratch),
    }
}

/// The programs' own record, and the recording.
struct PlayTruth<'a> {
    truth: &'a Value,
    report: &'a Report,
}

impl<'a> PlayTruth<'a> {
    fn new(outcome: &'a Outcome) -> Self {
        PlayTruth {
            truth: &outcome.truth,
            report: &outcome.report,
        }
    }

    fn client(&self) -> &Value {
        &self.truth["roles"][0]["clients"][0]
    }

    fn server(&self) -> &Value {
        &self.truth["roles"][0]["server"]
    }

    /// The waits of an end's threads for its connection until the client was ready; without those for
    /// the next segment of a large body, which comes at once: no round trip of the scene is as short.
    fn waits(&self, end: &Value) -> Value {
        let (pid, cookie) = (number(end, "/pid"), number(end, "/connections/0/cookie"));
        let until_ns = self.ready_ns() - number(&self.report.json, "/host/started_ns");
        let question = format!("--by object --longer-than 400us --pid {pid} --to {until_ns}ns");
        let answer = ask(self.report.path(), &question);
        let found = groups(&answer).iter().find(|group| group["conn"] == cookie);
        let found = found.unwrap_or_else(|| panic!("no waits for socket {cookie}: {answer}"));
        found.clone()
    }

    /// When the client was ready.
    fn ready_ns(&self) -> u64 {
        number(self.client(), "/ready_ns")
    }

    /// Values of a counter of this end, in turn.
    fn counter(&self, end: &Value, name: &str) -> Vec<u64> {
        let rows = self.counters(end);
        let values = rows.iter().filter(|row| row.name.as_deref() == Some(name));
        values.map(|row| row.value_u64.expect("unsigned")).collect()
    }

    fn counters(&self, end: &Value) -> Vec<Counter> {
        let pid = number(end, "/pid");
        let rows = self.report.rows::<Counter>().into_iter();
        let mut own: Vec<Counter> = rows.filter(|row| u64::from(row.pid) == pid).collect();
        own.sort_by_key(|row| row.time_ns);
        own
    }

    fn tasks(&self, end: &Value) -> Vec<Task> {
        let pid = number(end, "/pid");
        let rows = self.report.rows::<Task>().into_iter();
        rows.filter(|row| u64::from(row.pid) == pid).collect()
    }
}

/// Numbers of a field, of all entries of a list.
fn all(end: &Value, list: &str, field: &str) -> Vec<u64> {
    let entries = end[list].as_array().expect("a list").iter();
    entries.map(|entry| number(entry, field)).collect()
}

/// How long the calls of a list lasted, with the bytes that they moved.
fn calls(end: &Value, list: &str, from: &str, to: &str, bytes: &str) -> Vec<(u64, u64)> {
    let lasted = all(end, list, to).into_iter().zip(all(end, list, from));
    let lasted = lasted.map(|(to, from)| to - from);
    lasted.zip(all(end, list, bytes)).collect()
}

/// The population of slow waits is, call by call, what the program knows of its own calls.
fn populations_agree(waits: &Value, calls: &[(u64, u64)]) {
    let counts = || format!("{} of {}", waits["populations"], waits["histogram"]);
    assert!(
        !waits["populations"].is_null(),
        "one population: {}",
        counts()
    );
    let boundary_ns = number(waits, "/populations/boundary_ns");
    let (mut slow, mut fast): (Vec<u64>, Vec<u64>) = calls
        .iter()
        .map(|(ns, _)| ns)
        .partition(|ns| **ns >= boundary_ns);
    slow.sort_unstable();
    fast.sort_unstable();
    let count = number(waits, "/populations/slow/count");
    assert_eq!(count, slow.len() as u64, "{}", counts());
    let (slow_ns, fast_ns) = (slow[slow.len() / 2], fast[fast.len() / 2]);
    let p50_ns = number(waits, "/populations/slow/p50_ns");
    assert!(p50_ns >= LEAST_STALL_NS && p50_ns <= slow_ns * (100 + PERCENT_ABOVE) / 100);
    let p50_ns = number(waits, "/populations/fast/p50_ns");
    assert!(
        p50_ns * 4 < slow_ns && fast_ns * 4 < slow_ns,
        "{}",
        counts()
    );
}

/// The client's waits for answers until it was ready.
fn answers(played: &PlayTruth<'_>) -> Vec<(u64, u64)> {
    let client = played.client();
    calls(
        client,
        "commands",
        "/sent_ns",
        "/answered_ns",
        "/body_bytes",
    )
}

/// The server's waits for headers and bodies until the client was ready.
fn receives(played: &PlayTruth<'_>) -> Vec<(u64, u64)> {
    let server = played.server();
    let of = |list: &str| {
        let ends_ns = all(server, list, "/end_ns").into_iter();
        let calls = calls(server, list, "/start_ns", "/end_ns", "/bytes");
        let in_time = calls.into_iter().zip(ends_ns);
        let in_time = in_time.filter(|(_, end_ns)| *end_ns < played.ready_ns());
        in_time.map(|(call, _)| call).collect::<Vec<_>>()
    };
    [of("headers"), of("bodies")].concat()
}

fn slow_start(congctl: &str) -> Result<Outcome, String> {
    let outcome = record(&format!("--congctl {congctl}"));
    let is_stall = |(ns, bytes): &(u64, u64)| *bytes > SMALL_BYTES && *ns >= LEAST_STALL_NS;
    match answers(&PlayTruth::new(&outcome)).iter().any(is_stall) {
        true => Err("a large command stalled".to_owned()),
        false => Ok(outcome),
    }
}

/// The same; only its numbers are kept.
fn slow_start_in_short(congctl: &str) -> Result<Outcome, String> {
    let outcome = slow_start(congctl)?;
    let client = PlayTruth::new(&outcome).client().clone();
    let small = all(&client, "commands", "/body_bytes");
    let small = small.iter().filter(|bytes| **bytes <= SMALL_BYTES).count();
    Ok(without_lists(outcome).with("small_commands", small))
}

/// The same; the ends' record of their calls until the client was ready is kept.
fn slow_start_call_by_call(congctl: &str) -> Result<Outcome, String> {
    let outcome = slow_start(congctl)?;
    let played = PlayTruth::new(&outcome);
    let (answers, receives) = (answers(&played), receives(&played));
    let client = played.client();
    let polls = client["polls"].as_array().expect("a list").len();
    let first_ns =
        number(client, "/commands/0/answered_ns") - number(client, "/commands/0/start_ns");
    Ok(without_lists(outcome)
        .with("answers", json!(answers))
        .with("receives", json!(receives))
        .with("polls", polls)
        .with("first_command_ns", first_ns))
}

/// Waits of the programs for anything but their connection.
fn other_waits(_: &Outcome) -> LeftOut {
    LeftOut {
        waits: true,
        ..LeftOut::nothing()
    }
}

/// Calls of the truth: how long each lasted, and its bytes.
fn known_calls(truth: &Value, list: &str) -> Vec<(u64, u64)> {
    let calls = truth[list].as_array().expect("a list").iter();
    calls
        .map(|call| (number(call, "/0"), number(call, "/1")))
        .collect()
}

/// Without what the ends know of each command.
fn without_lists(mut outcome: Outcome) -> Outcome {
    for end in ["/roles/0/server", "/roles/0/clients/0"] {
        let end = outcome
            .truth
            .pointer_mut(end)
            .and_then(Value::as_object_mut);
        end.expect("an end")
            .retain(|name, value| name == "connections" || !value.is_array());
    }
    outcome
}

fn named_at_one_end(outcome: &Outcome) {
    let (played, congctl) = (PlayTruth::new(outcome), outcome.congctl());
    let (client, server) = (played.client(), played.server());
    let id = number(client, "/connections/0/cookie");
    let report = played.report;
    assert_eq!(report.by_cookie(id)["tcp"]["congestion"], congctl);
    report.assert_claims(id, &["nagle_delayed_ack sending"], &[]);
    let finding = report.finding(id, "nagle_delayed_ack").expect("a finding");
    assert_eq!(text(finding, "severity"), "critical", "{}", report.brief());
    report.assert_claims(number(server, "/connections/0/cookie"), &[], &[]);
    let small = number(&outcome.truth, "/small_commands");
    assert!(number(client, "/stalled_commands") * 10 >= small * 9);
}

fn reported_at_both_ends(outcome: &Outcome) {
    let played = PlayTruth::new(outcome);
    let (client, server) = (played.client(), played.server());
    let known = |list| known_calls(&outcome.truth, list);
    populations_agree(&played.waits(client), &known("answers"));
    populations_agree(&played.waits(server), &known("receives"));
    assert_counters(&played);
    assert_tasks(&played);
    assert!(largest_after(&played, server, "received bytes") <= SMALL_BYTES);
    assert!(largest_before(&played, client, "sent bytes") <= SMALL_BYTES);
}

/// Every value that the programs sent is there, in turn.
fn assert_counters(played: &PlayTruth<'_>) {
    let (client, server) = (played.client(), played.server());
    let answers = known_calls(played.truth, "answers");
    let bodies: Vec<u64> = answers.iter().map(|(_, bytes)| *bytes).collect();
    let polls = number(played.truth, "/polls") as usize;
    let commands = bodies.iter().flat_map(|bytes| [HEADER_BYTES, *bytes]);
    let commands = commands.chain(std::iter::repeat_n(HEADER_BYTES, polls));
    let commands: Vec<u64> = commands.collect();
    let answers = vec![ANSWER_BYTES; bodies.len() + polls];
    assert_eq!(played.counter(client, "sent bytes"), commands);
    assert_eq!(played.counter(client, "received bytes"), answers);
    assert_eq!(played.counter(server, "received bytes"), commands);
    assert_eq!(played.counter(server, "sent bytes"), answers);
    for row in [played.counters(client), played.counters(server)].concat() {
        assert_eq!(row.domain.as_deref(), Some("whylat.commands"));
        assert_eq!(row.unit.as_deref(), Some("bytes"));
    }
}

/// How many of each kind and name.
fn tally(tasks: &[Task]) -> BTreeMap<(String, &str), u64> {
    let mut tally = BTreeMap::new();
    for task in tasks {
        let name = task.name.as_deref().expect("a name");
        *tally.entry((task.kind.to_string(), name)).or_default() += 1;
    }
    tally
}

/// Every task is there, and has ended; start-up lasted as long as the client knows.
fn assert_tasks(played: &PlayTruth<'_>) {
    let (client, server) = (played.client(), played.server());
    let at_start = known_calls(played.truth, "answers").len() as u64;
    let asked = number(server, "/commands");
    let task = |name, count| ((TaskKind::Task.to_string(), name), count);
    let thread = |name| ((TaskKind::ThreadName.to_string(), name), 1);
    let of_client = played.tasks(client);
    let expected = [
        task("start-up", 1),
        task("command", asked),
        task("send", asked + at_start),
        task("receive", asked),
        thread("command-client"),
    ];
    assert_eq!(tally(&of_client), expected.into());
    let of_server = played.tasks(server);
    let expected = [
        task("command", asked),
        task("send", asked),
        // The last one meets the end of the stream.
        task("receive", asked + at_start + 1),
        thread("command-server"),
        thread("command channel"),
    ];
    assert_eq!(tally(&of_server), expected.into());
    let is_open = |task: &&Task| task.kind == TaskKind::Task && task.end_ns.is_none();
    assert_eq!(of_client.iter().chain(&of_server).find(is_open), None);
    let start_up = of_client
        .iter()
        .find(|task| task.name.as_deref() == Some("start-up"));
    let start_up = start_up.expect("start-up");
    let lasted_ns = start_up.end_ns.expect("an end") - start_up.begin_ns;
    assert!(lasted_ns <= number(client, "/startup_ns"));
    assert!(lasted_ns >= number(played.truth, "/first_command_ns"));
}

/// Waits of an end for its connection in which a timer must have expired.
fn slow_waits(played: &PlayTruth<'_>, end: &Value) -> Vec<Wait> {
    let cookie = number(end, "/connections/0/cookie");
    let rows = played.report.rows::<Wait>().into_iter();
    let is_slow = |wait: &Wait| wait.end_ns - wait.start_ns >= LEAST_STALL_NS;
    let slow: Vec<Wait> = rows
        .filter(|wait| wait.conn == Some(cookie) && is_slow(wait))
        .collect();
    assert!(!slow.is_empty());
    slow
}

/// The recipe's conclusion, from the recording alone: the largest of the values that a counter of the
/// same thread took next after the slow waits.
fn largest_after(played: &PlayTruth<'_>, end: &Value, name: &str) -> u64 {
    let rows = played.counters(end);
    let next = |wait: &Wait| {
        let of_thread = |row: &&Counter| row.tid == wait.tid && row.name.as_deref() == Some(name);
        let mut rows = rows.iter().filter(of_thread);
        rows.find(|row| row.time_ns >= wait.end_ns)
    };
    largest(slow_waits(played, end).iter().filter_map(next))
}

/// The same of the values that it had before them.
fn largest_before(played: &PlayTruth<'_>, end: &Value, name: &str) -> u64 {
    let rows = played.counters(end);
    let last = |wait: &Wait| {
        let of_thread = |row: &&Counter| row.tid == wait.tid && row.name.as_deref() == Some(name);
        let mut rows = rows.iter().rev().filter(of_thread);
        rows.find(|row| row.time_ns <= wait.start_ns)
    };
    largest(slow_waits(played, end).iter().filter_map(last))
}

fn largest<'a>(rows: impl Iterator<Item = &'a Counter>) -> u64 {
    let values = rows.map(|row| row.value_u64.expect("unsigned"));
    values.max().expect("a value")
}

fn own_fix(congctl: &str) -> Result<Outcome, String> {
    let words = format!("--congctl {congctl} --variant mended --cure rcvbuf");
    Ok(without_lists(record(&words)))
}

/// With the recipe's own fix the finding stays.
fn finding_stays(outcome: &Outcome) {
    assert_eq!(outcome.truth["cure"], "rcvbuf");
    let played = PlayTruth::new(outcome);
    let id = number(played.client(), "/connections/0/cookie");
    let finding = played.report.finding(id, "nagle_delayed_ack");
    let severity = finding.map(|finding| text(finding, "severity"));
    assert_eq!(severity, Some("critical"), "{}", played.report.brief());
}
