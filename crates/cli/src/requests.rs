//! `whylat report --requests` and `--request`: requests, and what their time went to.

use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use diagnose::recording;
use diagnose::requests::{RequestFilter, RequestId};
use table::Recording;
use view::{CsvText, RequestCsv};

use crate::format::AnswerFormat;
use crate::out::Output;
use crate::{exit, load};

/// Requests that text lists, and JSON: CSV has all.
const SHOWN: usize = 10;
const LISTED: usize = 10_000;

/// Requests instead of a diagnosis.
#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
pub(crate) struct RequestArgs {
    /// Show how long requests took and what their time went to, by service, and the slowest. With
    /// --format csv: every request
    #[arg(
        long, groups = ["filtered", "selected"],
        conflicts_with_all = ["by", "messages", "message", "tail"]
    )]
    requests: bool,

    /// Show what happened to one request, step by step: CONN:qOFFSET, as --requests prints it
    #[arg(
        long, value_name = "ID",
        conflicts_with_all = ["by", "messages", "message", "tail", "requests"]
    )]
    request: Option<RequestId>,
}

impl RequestArgs {
    /// Returns whether requests were asked for instead of a diagnosis.
    pub(crate) fn is_asked(&self) -> bool {
        self.requests || self.request.is_some()
    }

    /// Returns whether the user asked for all requests, not for one.
    pub(crate) fn is_list(&self) -> bool {
        self.requests
    }

    /// Prints the requests of a recording; `None` when it was not asked for.
    pub(crate) fn execute(
        &self,
        path: &Path,
        (filter, limit): (RequestFilter, Option<usize>),
        format: AnswerFormat,
        to: &Output,
    ) -> anyhow::Result<Option<ExitCode>> {
        if let Some(id) = self.request {
            return write_request(path, id, format, to).map(Some);
        }
        if !self.requests {
            return Ok(None);
        }
        let limit = limit.unwrap_or(match format {
            AnswerFormat::Text => SHOWN,
            AnswerFormat::Json => LISTED,
        });
        let report = load::requests(path, filter, limit)?;
        match format {
            AnswerFormat::Text => {
                to.write_exact(&view::requests_text(&report, &to.text_options()))?
            }
            AnswerFormat::Json => to.json(&report)?,
        }
        Ok(Some(exit::from_complete(report.about.is_complete())))
    }

    /// Writes every request as CSV.
    pub(crate) fn write_csv(
        &self,
        path: &Path,
        filter: RequestFilter,
        to: &Output,
    ) -> anyhow::Result<ExitCode> {
        let recording = Recording::open(path)?;
        load::require_calls(&recording)?;
        let text = match to.is_terminal() {
            true => CsvText::Clean,
            false => CsvText::Exact,
        };
        to.write(|out| {
            let mut csv = RequestCsv::new(text, BufWriter::new(out))?;
            let mut written = Ok(());
            recording::for_each_request(&recording, filter, |row| {
                if written.is_ok() {
                    written = csv.add(&row);
                }
            });
            written.and_then(|()| csv.finish())
        })?;
        let about = recording::describe_recording(&recording);
        Ok(exit::from_complete(about.is_complete()))
    }
}

/// Prints the report on one request.
fn write_request(
    path: &Path,
    id: RequestId,
    format: AnswerFormat,
    to: &Output,
) -> anyhow::Result<ExitCode> {
    let report = load::request(path, id)?;
    match (format, report.requests.first()) {
        (AnswerFormat::Text, Some(request)) => {
            to.write_exact(&view::request_text(&report, request, &to.text_options()))?;
        }
        _ => to.json(&report)?,
    }
    Ok(exit::from_complete(report.about.is_complete()))
}
