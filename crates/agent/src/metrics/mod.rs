//! Metrics for Prometheus. In: intervals, and the state of shipping. Out: a page in one of Prometheus' text formats.
//!
//! Numbers are of applications and of the agent, never of a connection: how many series there are does not depend on what
//! happens on the host. Names and units follow Prometheus' conventions; the page is cheap enough for any scrape interval.

mod agent;
mod page;
mod serve;
mod shipping;
mod tcp;
mod units;

pub use page::{Metrics, TextFormat};
pub use serve::{Endpoint, EndpointError, TOKEN_VARIABLE, Token};
