//! Digests that rules need beside requests: of rows of any table, filled in the same pass as all other analyses. To add one:
//! a file here, a line in `mod` and a line in `digests!`. A table that no analysis took before needs a line in
//! `recording/pass.rs`, too.

pub mod connection_ends;
mod digest;
pub mod failed_connects;
pub mod file_waits;
pub mod full_tables;
pub mod functions;
pub mod name_servers;
pub mod round_trips;
pub mod slow_starts;
pub mod udp_drops;
pub mod window_restarts;

use std::rc::Rc;

use table::manifest::Header;
use table::{Rows, TableConsumer, TableId};

use crate::waits::NameTable;
use connection_ends::ConnectionEndDigest;
use digest::RecordingDigest;
use failed_connects::FailedConnectDigest;
use file_waits::FileWaitDigest;
use full_tables::FullTableDigest;
use functions::FunctionDigest;
use name_servers::NameServerDigest;
use round_trips::RoundTripDigest;
use slow_starts::SlowStartDigest;
use udp_drops::UdpDropDigest;
use window_restarts::WindowRestartDigest;

macro_rules! digests {
    ($($(#[doc = $doc:literal])+ $field:ident: $digest:ty),+ $(,)?) => {
        /// All digests.
        #[derive(Debug)]
        pub struct DigestSet {
            $($(#[doc = $doc])+ pub $field: $digest,)+
        }

        impl DigestSet {
            /// Makes empty digests.
            pub fn new(header: &Header, names: &Rc<NameTable>) -> Self {
                Self {
                    $($field: <$digest as RecordingDigest>::new(header, names),)+
                }
            }
        }

        impl TableConsumer for DigestSet {
            fn is_reader_of(&self, table: TableId) -> bool {
                $(self.$field.is_reader_of(table))||+
            }

            fn add_rows(&mut self, rows: Rows<'_>) {
                let table = rows.table();
                $(
                    if self.$field.is_reader_of(table) {
                        self.$field.add_rows(rows);
                    }
                )+
            }
        }
    };
}

digests! {
    /// Connections that this host opened, and how they ended.
    connection_ends: ConnectionEndDigest,
    /// Functions that processes ran.
    functions: FunctionDigest,
    /// Attempts to connect that failed.
    failed_connects: FailedConnectDigest,
    /// Files that threads waited for.
    file_waits: FileWaitDigest,
    /// Processes without a free descriptor.
    full_tables: FullTableDigest,
    /// Name servers that processes waited for.
    name_servers: NameServerDigest,
    /// Round trips of connections over time.
    round_trips: RoundTripDigest,
    /// Slow start of connections.
    slow_starts: SlowStartDigest,
    /// Datagrams that this host dropped.
    udp_drops: UdpDropDigest,
    /// Congestion windows that were small again after a pause.
    window_restarts: WindowRestartDigest,
}
