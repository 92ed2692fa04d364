//! Addresses as rows have them.

/// Returns the port of an address.
pub fn port(address: &str) -> Option<u16> {
    address.rsplit(':').next()?.parse().ok()
}
