//! Metrics, in one registry for all who want them. In: intervals, and the state of shipping. Out: a page in one of Prometheus'
//! text formats, or values, which the export by OTLP takes.
//!
//! Numbers are of applications and of the agent, never of a connection: how many series there are does not depend on what
//! happens on the host. Names and units follow Prometheus' conventions; the page is cheap enough for any scrape interval.

mod agent;
mod families;
mod health;
mod page;
mod rtt;
mod serve;
mod shipping;
mod tcp;
mod telemetry;
mod units;

pub use families::{FamilyKind, MetricFamily, MetricSample, SampleValue};
pub(crate) use health::LONGEST_WAIT;
pub use health::Liveness;
pub use page::{Metrics, TextFormat};
pub(crate) use rtt::{RTT_HELP, RTT_NAME};
pub use serve::{Endpoint, EndpointError, TOKEN_VARIABLE, Token};
pub(crate) use tcp::{NONE, OTHER};
