//! Options of the analyses of a recording.

use crate::causes::Categories;
use crate::connections::snap::delayed_acks::SnapSettings;
use crate::messages::tail::TailQuery;

/// How connections are judged.
#[derive(Debug, Clone, Copy)]
pub struct DiagnosisOptions {
    /// How shares of delayed ACKs are estimated.
    pub snap: SnapSettings,
    /// Connections that are judged: the longest.
    pub max_connections: usize,
}

impl Default for DiagnosisOptions {
    fn default() -> Self {
        Self {
            snap: SnapSettings::default(),
            max_connections: 200_000,
        }
    }
}

/// How slow messages are explained.
#[derive(Debug, Default)]
pub struct TailOptions {
    /// The query; `None`: the slowest, as many as it is worth.
    pub question: Option<TailQuery>,
    /// Categories of functions; `None`: those of whylat.
    pub categories: Option<Categories>,
}
