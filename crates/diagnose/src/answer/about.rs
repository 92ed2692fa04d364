//! The head of every answer: where the recording was made, its coverage, losses and cost.

use serde::Serialize;
use table::manifest::{Close, Cost, Coverage, Header};

use super::host::{CloseState, ProbeLoss, RecordingHost};
use crate::rows::windows::WindowSums;
use crate::units::quantity;

/// The end of the manifest, and the state of the recording as its reader found it.
#[derive(Debug, Clone, Default)]
pub struct RecordingState {
    /// State of each probe.
    pub coverage: Vec<Coverage>,
    /// Totals of each probe.
    pub loss: Vec<table::manifest::Loss>,
    /// Cost of the profiler.
    pub cost: Option<Cost>,
    /// How it was closed; `None`: it was not.
    pub closed: Option<Close>,
    /// Damaged or missing parts, as the reader names them.
    pub problems: Vec<String>,
    /// Rows that are left out for it.
    pub left_out: Vec<OmittedRows>,
    /// The windows that its calls and waits are of; `None`: of all the time.
    pub windows: Option<WindowSums>,
}

/// Rows of a table that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OmittedRows {
    /// The table.
    pub table: String,
    /// The probe that fills it, as coverage names it.
    pub probe: String,
    /// How many rows, as far as that is known.
    pub rows: u64,
}

impl OmittedRows {
    /// Makes the note that the reader leaves out this many rows of a table.
    pub fn new(table: String, rows: u64) -> Self {
        let probe = match table.as_str() {
            "connections" | "listeners" | "processes" => "inventory",
            "tcp_samples" => "tcp_stats",
            "received_messages" | "sent_messages" => "messages",
            "udp_sockets" => "messages.udp",
            "process_samples" | "cpu_samples" => "cpu",
            "symbols" => "stacks",
            "activity_windows" => "activity",
            "counters" | "tasks" => "itt",
            // `clock_pairs` are of every clock, which have lines of their own.
            table => table,
        };
        Self {
            probe: probe.to_owned(),
            table,
            rows,
        }
    }

    /// Returns the number of rows and the name of their table in words.
    pub fn describe_rows(&self) -> String {
        match self.rows {
            0 => format!("rows of {}", self.table),
            rows => format!("{} of {}", quantity(rows, "row"), self.table),
        }
    }
}

/// Of what an answer is.
#[derive(Debug, Clone, Serialize)]
pub struct About {
    /// Where and how the recording was made.
    pub host: RecordingHost,
    /// Observed time, ns.
    pub span_ns: u64,
    /// How the recording ended.
    pub closed: CloseState,
    /// Damaged or missing parts, as the reader names them.
    pub problems: Vec<String>,
    /// Rows that are left out for it, by table; empty of a sound recording.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<OmittedRows>,
    /// The windows that calls and waits are of, and with them requests; absent: of all the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowSums>,
    /// State of each probe.
    pub coverage: Vec<Coverage>,
    /// Totals of each probe.
    pub loss: Vec<ProbeLoss>,
    /// Cost of the profiler; `None`: not recorded.
    pub cost: Option<Cost>,
}

impl About {
    /// Describes a recording with its latest row at `latest_ns`. Only the time from the first of `span` to the
    /// second counts.
    pub fn new(
        header: &Header,
        recorded: RecordingState,
        latest_ns: u64,
        span: (u64, u64),
    ) -> Self {
        let closed = recorded.closed.as_ref();
        let ended_ns = closed.map_or(latest_ns, |close| close.ended_ns);
        let until_ns = ended_ns.min(span.1);
        Self {
            host: RecordingHost::from_header(header),
            span_ns: until_ns.saturating_sub(header.started_ns.max(span.0)),
            closed: CloseState::from_close(closed),
            problems: recorded.problems,
            left_out: recorded.left_out,
            windows: recorded.windows,
            coverage: recorded.coverage,
            loss: recorded.loss.into_iter().map(Into::into).collect(),
            cost: recorded.cost,
        }
    }

    /// Returns the warning about a damaged recording, which `title` explains; `None`:
    /// it is sound.
    pub fn damage_warning(&self, title: &str) -> Option<String> {
        if self.problems.is_empty() {
            return None;
        }
        let rows = self.left_out.iter().map(OmittedRows::describe_rows);
        let rows: Vec<_> = rows.collect();
        let what = match self.left_out.iter().map(|it| it.rows).sum::<u64>() {
            _ if rows.is_empty() => String::new(),
            1 => format!(": {} is left out", rows.join(", ")),
            _ => format!(": {} are left out", rows.join(", ")),
        };
        Some(format!(
            "This recording is damaged{what}. The diagnosis may be wrong (see \"{title}\")."
        ))
    }

    /// Returns whether the recording was closed in order, undamaged, and lost nothing.
    pub fn is_complete(&self) -> bool {
        let lost = |loss: &ProbeLoss| loss.lost_total != 0 || loss.residual != 0;
        self.closed == CloseState::InOrder
            && self.problems.is_empty()
            && !self.loss.iter().any(lost)
    }
}
