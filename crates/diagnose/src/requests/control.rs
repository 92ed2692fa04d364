//! Small messages of a protocol itself: sizes by which they are known, without payload.

/// Messages of a protocol itself are this small. HTTP/2 (RFC 9113, 4.1, 6.7, 6.9): WINDOW_UPDATE has 13 bytes, PING 17;
/// two updates, of the stream and of the connection, go together. A TLS record adds 22 bytes (1.3) to 29 (1.2): 55.
pub const CONTROL_MOST_BYTES: u64 = 64;

/// A receiver sends one such message for so many bytes at most: `transportDefaultStreamMinRefresh` of Go's HTTP/2.
pub const CONTROLLED_LEAST_BYTES: u64 = 4_096;
