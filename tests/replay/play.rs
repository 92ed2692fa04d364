//! A play: a situation that is planted and recorded, and what its recording has to say.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kept;
use crate::shrink::{self, Calls, LeftOut};
use testbed::RecordedExchange;
use testbed::report::{Report, number};

/// Where the recordings come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Those that are kept.
    Kept,
    /// Each situation is planted and recorded again.
    Record,
    /// The same, and what is judged rightly replaces the kept one.
    Refresh,
}

impl Mode {
    /// As `WHYLAT_PLAYS` says.
    pub fn from_env() -> Result<Self, String> {
        let live = match env::var("WHYLAT_PLAYS").as_deref() {
            Err(_) => return Ok(Mode::Kept),
            Ok("record") => Mode::Record,
            Ok("refresh") => Mode::Refresh,
            Ok(other) => {
                return Err(format!(
                    "error: WHYLAT_PLAYS is {other:?}, which is neither `record` nor `refresh`\n\
                     hint: without it the kept recordings are judged"
                ));
            }
        };
        if nix::unistd::geteuid().is_root() {
            return Ok(live);
        }
        Err(
            "error: planting needs root\nhint: without WHYLAT_PLAYS the kept recordings are judged"
                .into(),
        )
    }
}

/// A recording, and what those who took part knew of what was recorded.
#[derive(Debug)]
pub struct Outcome {
    pub report: Report,
    pub truth: Value,
}

impl From<RecordedExchange> for Outcome {
    fn from(recorded: RecordedExchange) -> Self {
        Outcome {
            report: recorded.report,
            truth: json!({ "client": recorded.client, "server": recorded.server }),
        }
    }
}

impl Outcome {
    /// With one more part of the truth.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.truth[name] = value.into();
        self
    }

    /// The client's first connection in the report.
    #[track_caller]
    pub fn client_end(&self) -> &Value {
        let cookie = number(&self.truth, "/client/connections/0/cookie");
        self.report.by_cookie(cookie)
    }

    /// The server's first connection in the report.
    #[track_caller]
    pub fn server_end(&self) -> &Value {
        let cookie = number(&self.truth, "/server/connections/0/cookie");
        self.report.by_cookie(cookie)
    }

    /// The congestion control that was planted.
    pub fn congctl(&self) -> &str {
        self.truth["congctl"].as_str().expect("a name")
    }

    /// The client's socket, which ran under the congestion control that was planted.
    #[track_caller]
    pub fn client_id(&self) -> u64 {
        let client = self.client_end();
        assert_eq!(client["tcp"]["congestion"], self.congctl());
        assert_eq!(client["role"], "client");
        number(client, "/id")
    }
}

/// Plants a situation and records it. An error says, by another truth than the profiler's, that it did not come about.
pub type Record = Box<dyn Fn() -> Result<Outcome, String> + Send>;

/// Panics when the report is not what the truth wants.
pub type Judge = fn(&Outcome);

/// A situation, and its judgement.
pub struct Play {
    /// Its name, with `::` between the folders below `recordings/`.
    pub name: String,
    /// How it is made.
    pub record: Record,
    /// Checks the report against the truth.
    pub judge: Judge,
    /// The tables that the judgement needs.
    pub tables: &'static [&'static str],
    /// Returns the rows that the play can omit where its recording is too large.
    pub leaves_out: Option<fn(&Outcome) -> LeftOut>,
}

impl Play {
    /// Judges the play's recording: the kept one, or a new one.
    pub fn run(&self, mode: Mode) -> Result<(), String> {
        if mode == Mode::Kept {
            let outcome = kept::read(&self.name)?;
            (self.judge)(&outcome);
            return Ok(());
        }
        let outcome = self.plant()?;
        (self.judge)(&outcome);
        if mode == Mode::Refresh {
            self.keep(&outcome)?;
        }
        Ok(())
    }

    /// Plants it until it has come about. What the report says does not matter for that.
    fn plant(&self) -> Result<Outcome, String> {
        const ATTEMPTS: usize = 5;
        let mut refusal = String::new();
        for _ in 0..ATTEMPTS {
            match (self.record)() {
                Ok(outcome) => return Ok(outcome),
                Err(why) => refusal = why,
            }
            eprintln!("{}: planted in vain: {refusal}", self.name);
        }
        Err(refusal)
    }

    /// Keeps a small recording that says the same: of those with less and less in them, the first that is small.
    fn keep(&self, whole: &Outcome) -> Result<(), String> {
        let mut reasons = Vec::new();
        for left_out in self.left_out(whole) {
            match self.shrink(whole, &left_out) {
                Ok(small) if kept::is_small(small.path()) => {
                    return kept::replace(&self.name, small.path());
                }
                Ok(small) => reasons.push(kept::too_large(small.path())),
                Err(other) => reasons.push(other),
            }
        }
        Err(format!("{}: {}", self.name, reasons.join("\n")))
    }

    /// Returns selections of rows to omit, from none on: calls of a bulk transfer, then those that the play names.
    fn left_out(&self, whole: &Outcome) -> Vec<LeftOut> {
        let with_calls = |left_out: LeftOut| {
            [Calls::All, Calls::Eventful, Calls::None].map(|calls| LeftOut {
                calls,
                ..left_out.clone()
            })
        };
        let own = self.leaves_out.map(|left_out| left_out(whole));
        // waits of processes that only play are no part of a judgement
        if let Some(own) = own.clone().filter(|own| !own.processes.is_empty()) {
            return vec![own];
        }
        let all = [Some(LeftOut::nothing()), own];
        let has_calls = self.tables.contains(&"calls");
        let all = all.into_iter().flatten().flat_map(with_calls);
        all.filter(|left_out| has_calls || left_out.calls == Calls::All)
            .collect()
    }

    /// A small recording, which is judged as the whole one, and has the same findings if it has what connections are
    /// judged by.
    fn shrink(&self, whole: &Outcome, left_out: &LeftOut) -> Result<TempDir, String> {
        let scratch = tempfile::tempdir().map_err(|why| why.to_string())?;
        let recording = scratch.path().join("r.whylat");
        shrink::shrink(whole.report.path(), &recording, self.tables, left_out)?;
        let truth = judged_part(&whole.truth, &left_out.sockets).to_string();
        fs::write(scratch.path().join("truth.json"), truth + "\n")
            .map_err(|why| why.to_string())?;
        let small = kept::read_at(scratch.path())?;
        if self.tables.contains(&"tcp_stages") {
            let (whole, small) = (&whole.report.json, &small.report.json);
            shrink::finds_the_same(whole, small, &left_out.sockets)?;
        }
        let judged = panic::catch_unwind(AssertUnwindSafe(|| (self.judge)(&small)));
        let otherwise = |_| "the small recording is judged otherwise".to_owned();
        judged.map(|()| scratch).map_err(otherwise)
    }
}

/// Members of the truth for planting alone, not for a judgement: lists of calls, as long as the play.
const OF_PLANTING: &[&str] = &[
    "min_rtts_us",
    "read_ns",
    "read_times_ns",
    "round_times_ns",
    "slow",
    "written_ns",
];

/// The truth that is kept: without the sockets that are left out.
fn judged_part(truth: &Value, left_out: &HashSet<u64>) -> Value {
    let part = |value: &Value| judged_part(value, left_out);
    let is_kept = |item: &&Value| {
        let socket = item["cookie"].as_u64();
        socket.is_none_or(|socket| !left_out.contains(&socket))
    };
    match truth {
        Value::Object(members) => {
            let kept = members
                .iter()
                .filter(|(name, _)| !OF_PLANTING.contains(&name.as_str()));
            kept.map(|(name, value)| (name.clone(), part(value)))
                .collect()
        }
        Value::Array(items) => items.iter().filter(is_kept).map(part).collect(),
        other => other.clone(),
    }
}

/// Makes a play under one congestion control.
pub type RecordUnder = fn(congctl: &str) -> Result<Outcome, String>;

/// Two plays: under cubic and under bbr. The truth says under which.
pub fn under_both(
    topic: &str,
    name: &str,
    tables: &'static [&'static str],
    record: RecordUnder,
    judge: Judge,
) -> [Play; 2] {
    ["cubic", "bbr"].map(|congctl| under(congctl, topic, name, tables, record, judge))
}

/// A play under this congestion control.
pub fn under(
    congctl: &'static str,
    topic: &str,
    name: &str,
    tables: &'static [&'static str],
    record: RecordUnder,
    judge: Judge,
) -> Play {
    Play {
        name: format!("{topic}::{congctl}::{name}"),
        record: Box::new(move || Ok(record(congctl)?.with("congctl", congctl))),
        judge,
        tables,
        leaves_out: None,
    }
}

/// A folder's path of a play.
pub fn folder(name: &str) -> PathBuf {
    name.split("::").collect()
}
