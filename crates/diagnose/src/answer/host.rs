//! Host of a recording, its end, and the losses of its probes.

use serde::Serialize;
use table::manifest::{Close, Header};

/// Where and how a recording was made.
#[derive(Debug, Clone, Serialize)]
pub struct RecordingHost {
    /// Host name.
    pub name: String,
    /// Kernel's boot id: connection ids are unique within it.
    pub boot_id: String,
    /// Kernel release and version.
    pub kernel: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Kernel clock source.
    pub clocksource: String,
    /// Detail level.
    pub detail: String,
    /// Version of whylat that recorded.
    pub whylat: String,
    /// Command line that made the recording.
    pub arguments: Vec<String>,
    /// `CLOCK_REALTIME` at the start, ns.
    pub started_realtime_ns: u64,
    /// When the recording started, `CLOCK_MONOTONIC` ns.
    pub started_ns: u64,
}

impl RecordingHost {
    /// Converts the manifest's first line.
    pub(crate) fn from_header(header: &Header) -> Self {
        Self {
            name: header.host.clone(),
            boot_id: header.boot_id.clone(),
            kernel: header.kernel.clone(),
            cpus: header.cpus,
            clocksource: header.clocksource.clone(),
            detail: header.detail.clone(),
            whylat: header.whylat.clone(),
            arguments: header.arguments.clone(),
            started_realtime_ns: header.started_realtime_ns,
            started_ns: header.started_ns,
        }
    }
}

/// How a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseState {
    /// The recorder closed it.
    InOrder,
    /// `whylat recover` closed it after a crash.
    Recovered,
    /// It was never closed: the end of the recording is missing.
    NotClosed,
}

impl CloseState {
    /// Converts the manifest's last line; `None`: it is missing.
    pub(crate) fn from_close(close: Option<&Close>) -> Self {
        match close {
            Some(close) if close.in_order => Self::InOrder,
            Some(_) => Self::Recovered,
            None => Self::NotClosed,
        }
    }
}

/// Totals of one probe: `produced = stored + filtered + Σ lost + residual`.
#[derive(Debug, Clone, Serialize)]
pub struct ProbeLoss {
    /// The probe's own totals.
    #[serde(flatten)]
    pub totals: table::manifest::Loss,
    /// Σ of `lost`.
    pub lost_total: u64,
    /// Records that the totals leave unexplained; anything but zero is a fault of the recorder.
    pub residual: i64,
}

impl From<table::manifest::Loss> for ProbeLoss {
    fn from(totals: table::manifest::Loss) -> Self {
        let residual = totals.residual();
        let lost_total = totals.lost_total();
        let clamped = if residual < 0 { i64::MIN } else { i64::MAX };
        Self {
            totals,
            lost_total,
            residual: i64::try_from(residual).unwrap_or(clamped),
        }
    }
}
