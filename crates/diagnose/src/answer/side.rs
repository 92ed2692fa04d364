//! The sides of a connection.

use serde::Serialize;

/// Side of a connection on which a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// It answers.
    Server,
    /// It asks.
    Client,
}

impl Side {
    /// Returns the side's name: `client` or `server`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    /// Returns the side of the other end.
    pub const fn other(self) -> Self {
        match self {
            Self::Server => Self::Client,
            Self::Client => Self::Server,
        }
    }
}
