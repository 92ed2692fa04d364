//! The endpoint by which a kubelet, or another supervisor, knows that the agent watches: `GET /healthz`, without a token, as
//! it says nothing else. In: when the watching thread last went through its loop. Out: 200, or 503 if that is too long ago.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use probe::clock::monotonic_ns;

use super::serve::{AnswerPage, Endpoint, EndpointError, plain, refuse_method};
use crate::config::HealthConfig;

/// Longest time between two turns of the loop of an agent that watches: `WatchdogSec` of the systemd unit.
const LONGEST_TURN: Duration = Duration::from_secs(60);
/// Longest wait of an agent with this endpoint: half of it, as systemd advises for its watchdog (sd_watchdog_enabled(3)).
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Shows when the watching thread last went through its loop.
#[derive(Debug, Default)]
pub struct Liveness(AtomicU64);

impl Liveness {
    /// Returns one of a thread that has begun now.
    pub fn begin() -> Arc<Self> {
        let liveness = Arc::new(Self::default());
        liveness.note(monotonic_ns());
        liveness
    }

    /// Notes a turn of the loop at this time (`CLOCK_MONOTONIC`).
    pub fn note(&self, now_ns: u64) {
        self.0.store(now_ns, Ordering::Relaxed);
    }

    /// Returns the time since the last turn.
    fn since_turn(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(now_ns.saturating_sub(self.0.load(Ordering::Relaxed)))
    }
}

/// The page of the endpoint.
struct HealthPage(Arc<Liveness>);

impl Endpoint {
    /// Listens for those who ask whether the agent watches; `None` when the configuration wants no such endpoint.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start_health(
        config: &HealthConfig,
        liveness: Arc<Liveness>,
    ) -> Result<Option<Self>, EndpointError> {
        if config.listen.is_empty() {
            return Ok(None);
        }
        Self::open("health", &config.listen, HealthPage(liveness)).map(Some)
    }
}

impl AnswerPage for HealthPage {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if let Some(refusal) = refuse_method(request) {
            return refusal;
        }
        if request.uri().path() != "/healthz" {
            return plain(StatusCode::NOT_FOUND, "the only page is /healthz\n");
        }
        let since = self.0.since_turn(monotonic_ns());
        if since <= LONGEST_TURN {
            return plain(StatusCode::OK, "watching\n");
        }
        let text = format!("not watching for {} s\n", since.as_secs());
        plain(StatusCode::SERVICE_UNAVAILABLE, &text)
    }
}
