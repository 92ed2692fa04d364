//! The tools `report`, `findings`, `requests` and `request`: the answers of `whylat report`.

use diagnose::recording::DiagnosisOptions;
use diagnose::report::{Finding, Severity, UndecidedFinding};
use diagnose::requests::{RequestFilter, RequestId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use view::TextOptions;

use super::pieces::{self, AnswerPiece, ToolAnswer, as_size};
use super::root::RootFolder;
use super::tool::AssistantTool;
use crate::{load, values, waits};

/// Entries that are listed by default: what a person reads.
const SHOWN: u64 = 10;

/// Form of an answer.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AnswerForm {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowReport {
    /// Path of the recording, from the root folder [default: the newest]
    recording: Option<String>,
    /// Form of the answer: text, or json by docs/report.schema.json [default: text]
    #[serde(default)]
    format: AnswerForm,
    /// With text: show the evidence of findings that are no problem, too
    #[serde(default)]
    full: bool,
    /// With text: entries of each list, at most 1,000 [default: the worst]
    limit: Option<u64>,
}

impl AssistantTool for ShowReport {
    const NAME: &'static str = "report";
    const DESCRIPTION: &'static str = "Diagnoses a recording, as `whylat report` does. The first sentence is \
        the answer. Each problem follows, with evidence, ruled-out causes, fix and gain. The end lists what was \
        not recorded or lost. Begin here.";

    fn answer(&self, root: &RootFolder, _: u64) -> anyhow::Result<ToolAnswer> {
        let limit = self
            .limit
            .map(|given| pieces::list_limit(Some(given), SHOWN));
        let limit = limit.transpose()?.map(as_size);
        let path = root.recording_path(self.recording.as_deref())?;
        let report = load::diagnose(&path, DiagnosisOptions::default())?;
        Ok(ToolAnswer::Whole(match self.format {
            AnswerForm::Text => {
                let options = TextOptions {
                    limit,
                    is_full: self.full,
                    ..TextOptions::default()
                };
                view::text(&report, &options)
            }
            AnswerForm::Json => view::json(&report),
        }))
    }
}

/// Least severity of a finding.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LeastSeverity {
    Info,
    Warning,
    Critical,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFindings {
    /// Path of the recording, from the root folder [default: the newest]
    recording: Option<String>,
    /// Only findings of this rule
    rule: Option<String>,
    /// Only findings of this severity, or worse: info, warning, critical [default: info]
    severity: Option<LeastSeverity>,
    /// Findings to list, at most 1,000 [default: 10]
    limit: Option<u64>,
}

/// Findings, worst first; then problems with an unknown cause.
#[derive(Debug, Serialize)]
struct FindingList<'a> {
    findings: &'a [&'a Finding],
    undecided: &'a [UndecidedFinding],
    /// Damage of the recording: findings may be wrong.
    problems: &'a [String],
}

impl AssistantTool for ListFindings {
    const NAME: &'static str = "findings";
    const DESCRIPTION: &'static str = "Lists the findings of a recording as JSON, worst first. Each has rule, \
        severity, headline, subject, evidence, ruled-out causes, blind spots, advice, estimated gain and \
        confidence. `undecided` has problems with a cause that the recording does not show, and what would show \
        it.";

    fn answer(&self, root: &RootFolder, cursor: u64) -> anyhow::Result<ToolAnswer> {
        let limit = pieces::list_limit(self.limit, SHOWN)?;
        let path = root.recording_path(self.recording.as_deref())?;
        let report = load::diagnose(&path, DiagnosisOptions::default())?;
        let wanted: Vec<_> = report
            .findings
            .iter()
            .filter(|it| self.is_wanted(it))
            .collect();
        let (listed, rest) = pieces::list_part(&wanted, cursor, limit);
        let list = FindingList {
            findings: listed,
            undecided: if cursor == 0 { &report.undecided } else { &[] },
            problems: &report.about.problems,
        };
        let words = |left| diagnose::units::quantity(left, "more finding");
        Ok(ToolAnswer::Entries(AnswerPiece {
            text: view::json(&list),
            warning: None,
            rest: rest.map(|(left, next)| (words(left), next)),
        }))
    }
}

impl ListFindings {
    /// Returns whether a finding passes the filters.
    fn is_wanted(&self, finding: &Finding) -> bool {
        let least = match self.severity.unwrap_or(LeastSeverity::Info) {
            LeastSeverity::Info => Severity::Info,
            LeastSeverity::Warning => Severity::Warning,
            LeastSeverity::Critical => Severity::Critical,
        };
        let is_of_rule = |rule: &String| rule == finding.rule.name();
        finding.severity >= least && self.rule.as_ref().is_none_or(is_of_rule)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListRequests {
    /// Path of the recording, from the root folder [default: the newest]
    recording: Option<String>,
    /// Form of the answer: text, or json by docs/requests.schema.json [default: text]
    #[serde(default)]
    format: AnswerForm,
    /// Only requests that ended at this time after the start, or later: a number with ns, us, ms, s, min or h
    from: Option<String>,
    /// Only requests that ended before this time after the start
    to: Option<String>,
    /// Only requests of this process
    pid: Option<u32>,
    /// Only requests of this thread
    thread: Option<u32>,
    /// Only requests on this connection id, address, or name as printed
    object: Option<String>,
    /// Only requests longer than this time, such as 10ms
    longer_than: Option<String>,
    /// Slowest requests to list, at most 1,000 [default: 10]
    limit: Option<u64>,
}

impl AssistantTool for ListRequests {
    const NAME: &'static str = "requests";
    const DESCRIPTION: &'static str = "Reports durations of requests and the parts of their time, by service, \
        as `whylat report --requests` does. It lists the slowest with their ids.";

    fn answer(&self, root: &RootFolder, _: u64) -> anyhow::Result<ToolAnswer> {
        let limit = as_size(pieces::list_limit(self.limit, SHOWN)?);
        let filter = self.request_filter()?;
        let path = root.recording_path(self.recording.as_deref())?;
        let report = load::requests(&path, filter, limit)?;
        Ok(ToolAnswer::Whole(match self.format {
            AnswerForm::Text => view::requests_text(&report, &TextOptions::default()),
            AnswerForm::Json => view::json(&report),
        }))
    }
}

impl ListRequests {
    /// Returns which requests the assistant asked for.
    fn request_filter(&self) -> anyhow::Result<RequestFilter> {
        let (from_ns, to_ns) = (parse_time("from", &self.from)?, parse_time("to", &self.to)?);
        waits::check_window(from_ns, to_ns)?;
        Ok(RequestFilter {
            from_ns,
            to_ns,
            pid: self.pid,
            tid: self.thread,
            object: self.object.clone(),
            longer_than_ns: parse_time("longer_than", &self.longer_than)?,
            id: None,
        })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowRequest {
    /// Path of the recording, from the root folder [default: the newest]
    recording: Option<String>,
    /// Id of the request, CONN:qOFFSET, as the tool `requests` lists it
    id: String,
    /// Form of the answer: text, or json by docs/requests.schema.json [default: text]
    #[serde(default)]
    format: AnswerForm,
}

impl AssistantTool for ShowRequest {
    const NAME: &'static str = "request";
    const DESCRIPTION: &'static str = "Shows one request step by step, as `whylat report --request ID` does: \
        threads, what they waited for, who woke them. It has the sum of each part.";

    fn answer(&self, root: &RootFolder, _: u64) -> anyhow::Result<ToolAnswer> {
        let id = self.id.parse::<RequestId>().map_err(|why| {
            anyhow::anyhow!(
                "{why}\n\
                 hint: the tool `requests` lists the slowest, with their ids"
            )
        })?;
        let path = root.recording_path(self.recording.as_deref())?;
        let report = load::request(&path, id)?;
        Ok(ToolAnswer::Whole(
            match (self.format, report.requests.first()) {
                (AnswerForm::Text, Some(request)) => {
                    view::request_text(&report, request, &TextOptions::default())
                }
                _ => view::json(&report),
            },
        ))
    }
}

/// Reads a time such as `1.5s`; None if it is not given.
fn parse_time(name: &str, given: &Option<String>) -> anyhow::Result<Option<u64>> {
    let parse = |text: &String| {
        values::time_ns(text)
            .map_err(|why| anyhow::anyhow!("{name} {}: {why}", view::remove_controls(text)))
    };
    given.as_ref().map(parse).transpose()
}
