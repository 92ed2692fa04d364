//! Threads on CPUs of their own: those of the server on the first half of those that may be used, those of the
//! client on the others.

use lab::LabError;
use lab::workload::{allowed_cpus, pin_to};

/// Moves the calling thread to the CPU of the server's thread `place`.
pub(super) fn pin_server(place: usize) -> Result<(), LabError> {
    pin_to(cpu(&allowed_cpus()?, place, false))
}

/// Moves the calling thread to the CPU of the client's thread `place`.
pub(super) fn pin_client(place: usize) -> Result<(), LabError> {
    pin_to(cpu(&allowed_cpus()?, place, true))
}

/// Returns the CPU of a thread: servers have the first half of the allowed CPUs, clients the other.
fn cpu(allowed: &[usize], place: usize, is_client: bool) -> usize {
    let (servers, clients) = allowed.split_at(allowed.len().div_ceil(2));
    let own = if is_client && !clients.is_empty() {
        clients
    } else {
        servers
    };
    own.get(place % own.len().max(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_cpus_of_their_own() {
        let places =
            |allowed: &[usize], is_client| [0, 1, 2].map(|place| cpu(allowed, place, is_client));
        assert_eq!(places(&[3, 5], false), [3, 3, 3]);
        assert_eq!(places(&[3, 5], true), [5, 5, 5]);
        assert_eq!(places(&[0, 1, 2, 3], true), [2, 3, 2]);
        assert_eq!(places(&[4], true), [4, 4, 4]);
    }
}
