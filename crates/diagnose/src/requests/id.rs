//! Names of what requests are about: numbers in their tables, and the name of a request.

use std::fmt;
use std::str::FromStr;

/// Number of a connection in an [`EndpointTable`](super::endpoint::EndpointTable).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(u32);

impl EndpointId {
    /// Returns the endpoint with this number.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Returns the id as a position in a table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a thread in a [`History`](super::history::History).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(u32);

impl ThreadId {
    /// Returns the id as a position in a table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the id as a number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the thread with this number.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// Number of a service in a [`ServiceTable`](super::service::ServiceTable).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceId(u32);

impl ServiceId {
    /// Returns the id as a number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the id as a position in a table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the service with this number.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// Name of a request: its connection, and the offset of its first byte in the stream to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Socket cookie.
    pub conn: u64,
    /// Offset of the first byte.
    pub offset: u64,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:q{}", self.conn, self.offset)
    }
}

/// A text that names no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestIdError(String);

impl fmt::Display for RequestIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no request\nhint: write CONN:qOFFSET, such as 4711:q51790, as `whylat report --requests` \
                prints it",
            self.0
        )
    }
}

impl std::error::Error for RequestIdError {}

impl FromStr for RequestId {
    type Err = RequestIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once(":q").and_then(|(conn, offset)| {
            Some(Self {
                conn: conn.parse().ok()?,
                offset: offset.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| RequestIdError(text.to_owned()))
    }
}
