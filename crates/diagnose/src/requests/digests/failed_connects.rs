//! Attempts to connect that failed, by process and address.

use std::collections::BTreeMap;
use std::rc::Rc;

use table::manifest::Header;
use table::tables::FailedConnect;
use table::{Columns, Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::waits::NameTable;

/// Attempts that are kept of one process and address; more are counted.
const KEPT_MOST: usize = 1 << 12;

/// Attempts of one process to connect to one address.
#[derive(Debug, Default)]
pub struct FailedAttempts {
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
        let ns = row.end_ns.saturating_sub(row.start_ns);
        *attempts.by_errno.entry(row.errno).or_default() += 1;
        attempts.waited_ns += ns;
        attempts.longest_ns = attempts.longest_ns.max(ns);
        attempts.syn_retries += u64::from(row.syn_retries);
        attempts.last_ns = attempts.last_ns.max(row.end_ns);
        if attempts.kept.len() < KEPT_MOST {
            attempts.kept.push(row);
        }
    }
}
