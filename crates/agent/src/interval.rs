//! All rows of one interval of one host: the collecting side hands them to the shipping side.

use std::collections::HashMap;
use std::sync::Arc;

use table::fleet::{FleetConnections, FleetCoverage, FleetDetails, FleetIntervals, FleetProblems};

use crate::ContainerIdentity;

/// The rows of one interval. Times are `CLOCK_REALTIME`, ns since 1970-01-01 UTC; an interval is
/// a whole minute of it, but for the first and the last of an agent's life.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Its start.
    pub begin_ns: i64,
    /// That the host was watched, and by what. What the shipping side knows (`spooled_files`,
    /// `dropped_files`, `rows`) it fills in itself.
    pub coverage: FleetCoverage,
    /// Bins with problems.
    pub problems: FleetProblems,
    /// Connections that did something.
    pub intervals: FleetIntervals,
    /// Connections that were new, changed or closed.
    pub connections: FleetConnections,
    /// Readings near problems.
    pub details: FleetDetails,
    /// Containers of the processes of `connections`, by `conn_id`. They are in no table.
    pub containers: HashMap<i64, Arc<ContainerIdentity>>,
}
