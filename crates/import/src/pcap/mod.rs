//! Packet captures → the tables of a live recording, as far as packets show them.
//!
//! ```text
//! source     a file → packets
//! segment    a packet → a TCP segment
//! sequence   sequence numbers → offsets in a stream, and its gaps
//! round_trip round trips to either end
//! acks       ACKs between the capture and the sender
//! clock      timestamps → when a segment left
//! ids        packets that did not pass
//! copies     the same packet at another interface
//! counts     counters of one direction
//! half       one direction: what passed, again, late; what was acknowledged
//! ledger     what stopped the next byte
//! pace       rates, and what loss left of them
//! window     whether the receiver's program reads
//! turns      bytes → calls, by which requests are found
//! connection both directions → rows of both ends
//! rows       these rows
//! due        which of them are to be examined, and when
//! flow_table connections by their addresses
//! capture_import counts of a capture
//! flows      captures → rows, and files side by side
//! ```

mod acks;
mod capture_import;
mod clock;
mod connection;
mod copies;
mod counts;
mod due;
mod empty_stages;
mod flow_table;
mod flows;
mod half;
mod ids;
mod ledger;
mod pace;
mod round_trip;
mod rows;
mod segment;
mod sequence;
mod source;
#[cfg(test)]
mod tests;
mod turns;
mod window;

pub use capture_import::CaptureImport;
pub use flows::CaptureReader;

/// Place of the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Vantage {
    /// Where round trips show it to be, for each connection.
    #[default]
    Estimated,
    /// At the end that opened the connections.
    Client,
    /// At the other.
    Server,
}
