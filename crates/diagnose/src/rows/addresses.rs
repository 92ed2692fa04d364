//! Addresses as rows have them.

/// Returns the port of an address.
pub fn port(address: &str) -> Option<u16> {
    address.rsplit(':').next()?.parse().ok()
}

/// Returns an address without its port.
pub fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// Returns whether a socket that is bound to `bound` has this address: it is the same, or all addresses with this port.
pub fn is_at(address: &str, bound: &str) -> bool {
    let host = bound.rsplit_once(':').map(|(host, _)| host);
    let is_any = matches!(host, Some("0.0.0.0" | "[::]"));
    address == bound || (is_any && port(address).is_some() && port(address) == port(bound))
}
