//! Attempts to connect that failed, by process and address.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use table::manifest::Header;
use table::tables::FailedConnect;
use table::{Columns, Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::kernel::TCP_TIMEOUT_INIT_NS;
use crate::waits::NameTable;

/// Attempts that are kept of one process and address; more are counted.
const KEPT_MOST: usize = 1 << 12;

/// Within this host an answer takes microseconds, and on no path do programs give up sooner: the recommended minimum of the
/// Connection Attempt Delay (RFC 8305, 8), ns.
const ATTEMPT_DELAY_MIN_NS: u64 = 100_000_000;

/// Attempts of one process to connect to one address.
#[derive(Debug, Default)]
pub struct FailedAttempts {
    /// Those that failed.
    pub failed: AttemptSums,
    /// Those that the program gave up so early that an answer may have been on its way.
    pub early: AttemptSums,
}

/// Sums of attempts.
#[derive(Debug, Default)]
pub struct AttemptSums {
    /// The first ones.
    pub kept: Vec<FailedConnect>,
    /// How many, by errno; `None`: the program gave up.
    pub by_errno: BTreeMap<Option<i32>, u64>,
    /// Time of all, ns.
    pub waited_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
    /// SYNs retransmitted.
    pub syn_retries: u64,
    /// When the last one ended.
    pub last_ns: u64,
}

/// Failed attempts by process and address.
#[derive(Debug, Default)]
pub struct FailedConnectDigest {
    /// By pid and address.
    pub attempts: BTreeMap<(u32, String), FailedAttempts>,
}

impl RecordingDigest for FailedConnectDigest {
    fn new(_: &Header, _: &Rc<NameTable>) -> Self {
        Self::default()
    }
}

impl TableConsumer for FailedConnectDigest {
    fn is_reader_of(&self, table: TableId) -> bool {
        table == TableId::FailedConnect
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        if let Rows::FailedConnect(rows) = rows {
            (0..rows.len()).for_each(|row| self.add(rows.row(row)));
        }
    }
}

impl FailedConnectDigest {
    /// Adds a failed attempt to the sums of its process and remote address.
    fn add(&mut self, row: FailedConnect) {
        let key = (row.pid, row.remote.clone());
        let attempts = self.attempts.entry(key).or_default();
        let sums = match is_early(&row) {
            true => &mut attempts.early,
            false => &mut attempts.failed,
        };
        sums.add(row);
    }

    /// Returns whether a process tried in vain to connect to another loopback address with the port of this one.
    pub fn has_other_loopback(&self, pid: u32, address: &str) -> bool {
        if !is_loopback(address) {
            return false;
        }
        let of_process = (pid, String::new())..(pid.saturating_add(1), String::new());
        let mut tried = self.attempts.range(of_process);
        tried.any(|((_, remote), _)| is_other_loopback(remote, address))
    }
}

/// Returns whether the program gave up so early that an answer may have been on its way. A SYN without an answer for
/// TCP_TIMEOUT_INIT is lost, whether or not its timer has ended by then.
fn is_early(attempt: &FailedConnect) -> bool {
    let due_ns = match is_loopback(&attempt.remote) {
        true => ATTEMPT_DELAY_MIN_NS,
        false => TCP_TIMEOUT_INIT_NS,
    };
    let ns = attempt.end_ns.saturating_sub(attempt.start_ns);
    attempt.errno.is_none() && attempt.syn_retries == 0 && ns < due_ns
}

/// Returns whether an address with its port is one of this host's loopback interface.
pub fn is_loopback(address: &str) -> bool {
    let address: Option<SocketAddr> = address.parse().ok();
    address.is_some_and(|it| it.ip().to_canonical().is_loopback())
}

/// Returns whether both are loopback addresses with one port, and differ: those of `localhost` do.
pub fn is_other_loopback(other: &str, address: &str) -> bool {
    let parse = |it: &str| it.parse::<SocketAddr>().ok();
    let (Some(one), Some(two)) = (parse(other), parse(address)) else {
        return false;
    };
    let is_same = one.ip().to_canonical() == two.ip().to_canonical();
    is_loopback(other) && is_loopback(address) && one.port() == two.port() && !is_same
}

impl AttemptSums {
    /// Adds an attempt.
    fn add(&mut self, row: FailedConnect) {
        let ns = row.end_ns.saturating_sub(row.start_ns);
        *self.by_errno.entry(row.errno).or_default() += 1;
        self.waited_ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
        self.syn_retries += u64::from(row.syn_retries);
        self.last_ns = self.last_ns.max(row.end_ns);
        if self.kept.len() < KEPT_MOST {
            self.kept.push(row);
        }
    }

    /// Returns the number of attempts.
    pub fn count(&self) -> u64 {
        self.by_errno.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Makes an attempt that the program gave up after this time.
    fn attempt(remote: &str, ms: u64) -> FailedConnect {
        FailedConnect {
            start_ns: MS,
            end_ns: MS + ms * MS,
            netns: 1,
            local: None,
            remote: remote.to_owned(),
            pid: 7,
            tid: 7,
            errno: None,
            syn_retries: 0,
        }
    }

    #[test]
    fn an_attempt_of_a_second_is_lost_though_its_timer_did_not_end() {
        const METADATA: &str = "169.254.169.254:80";
        assert!(!is_early(&attempt(METADATA, 1_000)));
        assert!(is_early(&attempt(METADATA, 999)));
        let retried = FailedConnect {
            syn_retries: 1,
            ..attempt(METADATA, 300)
        };
        let refused = FailedConnect {
            errno: Some(111),
            ..attempt(METADATA, 300)
        };
        assert!(!is_early(&retried) && !is_early(&refused));
    }

    #[test]
    fn an_answer_within_the_host_takes_no_250_ms() {
        for remote in ["[::1]:7307", "127.0.0.1:7307", "[::ffff:127.0.0.1]:7307"] {
            assert!(!is_early(&attempt(remote, 250)), "{remote}");
        }
        assert!(is_early(&attempt("[2001:db8::1]:80", 250)));
        assert!(is_early(&attempt("[::1]:7307", 99)));
    }

    #[test]
    fn attempts_that_end_early_are_not_counted_with_those_that_fail() {
        let mut digest = FailedConnectDigest::default();
        (0..50).for_each(|_| digest.add(attempt("10.0.0.1:80", 250)));
        digest.add(attempt("10.0.0.1:80", 1_000));
        let attempts = &digest.attempts[&(7, "10.0.0.1:80".to_owned())];
        assert_eq!((attempts.failed.count(), attempts.early.count()), (1, 50));
        assert_eq!(attempts.failed.waited_ns, 1_000 * MS);
        assert_eq!(attempts.early.longest_ns, 250 * MS);
    }

    #[test]
    fn other_loopback_address_has_the_same_port() {
        let mut digest = FailedConnectDigest::default();
        digest.add(attempt("127.0.0.1:80", 250));
        assert!(digest.has_other_loopback(7, "[::1]:80"));
        assert!(!digest.has_other_loopback(7, "127.0.0.1:80"));
        assert!(!digest.has_other_loopback(7, "[::1]:81"));
        assert!(!digest.has_other_loopback(8, "[::1]:80"));
        assert!(!digest.has_other_loopback(7, "10.0.0.1:80"));
    }
}
