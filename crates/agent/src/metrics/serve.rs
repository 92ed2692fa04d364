//! The endpoints by HTTP/1.1: `GET /metrics`, and nothing else; and the one of [`super::health`].
//!
//! A thread with a runtime of its own, so that a slow reader holds nobody up. Who has not the token is refused, other users
//! of this host included. So is who asks under a name that is not this host's, or from another site's page: a page in a
//! browser can make any name mean 127.0.0.1 (DNS rebinding).

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN,
    WWW_AUTHENTICATE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::page::{Metrics, TextFormat};
use crate::config::{HostConfig, MetricsConfig};
use crate::ship::ShipWatch;

/// Connections at a time: Prometheus needs one, and a curious person another.
const CONNECTIONS: usize = 16;
/// Longest time for a request to come, and for its answer to leave.
const PATIENCE: Duration = Duration::from_secs(10);

/// Variable of the environment that holds what Prometheus must show.
pub const TOKEN_VARIABLE: &str = "WHYLAT_METRICS_TOKEN";

/// The endpoint cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {listen}: {source}\nhint: set [{section}] listen to another address or port, or to \"\" for \
            none; `ss -ltnp` shows who listens"
    )]
    Listen {
        /// The section of the configuration that has the address.
        section: &'static str,
        /// The address.
        listen: String,
        /// Why not.
        source: io::Error,
    },
    /// There is no token by which Prometheus is distinguished from others.
    #[error(
        "cannot answer Prometheus on {listen}: {TOKEN_VARIABLE} is not set, and everyone who reaches the \
            address could read which applications run here\nhint: make a token with `openssl rand -hex 32`, set \
            it in the environment (/etc/whylat/agent.env, mode 600), and give it to Prometheus as \
            authorization.credentials"
    )]
    NoToken {
        /// The address.
        listen: String,
    },
}

/// BLAKE3 digest of the secret that Prometheus presents. Comparing two digests takes the same time for every secret.
#[derive(Debug, Clone, Copy)]
pub struct Token(blake3::Hash);

impl Token {
    /// Makes a token of a secret; `None` if it is empty.
    pub fn new(secret: &str) -> Option<Self> {
        let secret = secret.trim();
        (!secret.is_empty()).then(|| Self(blake3::hash(secret.as_bytes())))
    }

    /// Reads the token from the environment.
    pub fn from_environment() -> Option<Self> {
        Self::new(&std::env::var(TOKEN_VARIABLE).ok()?)
    }

    /// Returns whether an `Authorization` header has the token (RFC 6750, 2.1).
    fn is_shown(self, authorization: &str) -> bool {
        let Some((scheme, shown)) = authorization.split_once(' ') else {
            return false;
        };
        scheme.eq_ignore_ascii_case("Bearer") && Self::new(shown).is_some_and(|it| it.0 == self.0)
    }
}

/// The endpoint, as long as this lives.
pub struct Endpoint {
    address: SocketAddr,
    ends: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A page that answers requests.
pub(super) trait AnswerPage: Send + Sync + 'static {
    /// Returns the answer.
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>>;
}

/// Metrics and shipping state that an HTTP request is answered from, with the host names that it may ask by.
struct MetricsPage {
    metrics: Arc<Metrics>,
    shipping: Option<ShipWatch>,
    names: Vec<String>,
    token: Token,
}

impl Endpoint {
    /// Starts to listen and to answer requests with the token; `None`: the configuration wants no
    /// endpoint.
    ///
    /// # Errors
    /// When there is no token, or the address cannot be listened on.
    pub fn start(
        config: &MetricsConfig,
        host: &HostConfig,
        token: Option<Token>,
        metrics: Arc<Metrics>,
        shipping: Option<ShipWatch>,
    ) -> Result<Option<Self>, EndpointError> {
        if config.listen.is_empty() {
            return Ok(None);
        }
        let token = token.ok_or_else(|| EndpointError::NoToken {
            listen: config.listen.clone(),
        })?;
        let mut names = config.names.clone();
        names.extend([host.name.clone(), "localhost".to_owned()]);
        let page = MetricsPage {
            metrics,
            shipping,
            names,
            token,
        };
        Self::open("metrics", &config.listen, page).map(Some)
    }

    /// Opens the endpoint of a section of the configuration.
    pub(super) fn open(
        section: &'static str,
        listen: &str,
        page: impl AnswerPage,
    ) -> Result<Self, EndpointError> {
        let failed = |source| EndpointError::Listen {
            section,
            listen: listen.to_owned(),
            source,
        };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let page = Arc::new(page);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let (ends, ended) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(section.to_owned())
            .spawn(move || runtime.block_on(serve(listener, page, ended)))
            .map_err(failed)?;
        Ok(Self {
            address,
            ends: Some(ends),
            thread: Some(thread),
        })
    }

    /// Returns the address of the endpoint.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for a free place, then for the next connection; `None` at the end.
async fn accept(
    listener: &tokio::net::TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            return Some((stream, place));
        }
        // out of descriptors: others must give some back first
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Answers HTTP requests until the agent ends.
async fn serve(
    listener: TcpListener,
    page: Arc<impl AnswerPage>,
    mut ended: oneshot::Receiver<()>,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            _ = &mut ended => return,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else {
            return;
        };
        let page = Arc::clone(&page);
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let answer = page.answer(&request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            // who hangs up, or is too slow, is none of ours
            let _ = tokio::time::timeout(2 * PATIENCE, connection).await;
            drop(place);
        });
    }
}

impl AnswerPage for MetricsPage {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if let Some(refusal) = self.refusal(request) {
            return refusal;
        }
        if let Some(refusal) = refuse_method(request) {
            return refusal;
        }
        match request.uri().path() {
            "/metrics" => self.metrics(request),
            "/" => plain(StatusCode::OK, "whylat agent: /metrics is for Prometheus\n"),
            _ => plain(StatusCode::NOT_FOUND, "the only page is /metrics\n"),
        }
    }
}

impl MetricsPage {
    /// Returns the answer to a client that may not ask.
    fn refusal(&self, request: &Request<Incoming>) -> Option<Response<Full<Bytes>>> {
        let header = |name: HeaderName| request.headers().get(name)?.to_str().ok();
        let Some(host) = header(HOST).filter(|host| self.is_ours(host)) else {
            let why = "this host has no such name\nhint: ask by its address, or add the name to [metrics] names\n";
            return Some(plain(StatusCode::MISDIRECTED_REQUEST, why));
        };
        // what cannot be read as text is no origin of ours
        if request.headers().contains_key(ORIGIN)
            && header(ORIGIN).and_then(|origin| origin.strip_prefix("http://")) != Some(host)
        {
            let why = "pages of other sites must not read this\n";
            return Some(plain(StatusCode::FORBIDDEN, why));
        }
        if header(AUTHORIZATION).is_some_and(|shown| self.token.is_shown(shown)) {
            return None;
        }
        let why = format!(
            "the request needs the token\nhint: send Authorization: Bearer, and the value of {TOKEN_VARIABLE}\n"
        );
        let mut response = plain(StatusCode::UNAUTHORIZED, &why);
        let bearer = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        Some(response)
    }

    /// Returns whether a `Host` header names this host, by address or known name.
    fn is_ours(&self, host: &str) -> bool {
        let name = match host.parse::<SocketAddr>() {
            Ok(_) => return true,
            Err(_) => host.split_once(':').map_or(host, |(name, _)| name),
        };
        let address = host.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || name.parse::<IpAddr>().is_ok()
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns all metrics in the format that the request accepts.
    fn metrics(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if let Some(shipping) = &self.shipping {
            self.metrics.shipping(&shipping.state());
        }
        let accepts = |accept: &HeaderValue| {
            let accept = accept.to_str().unwrap_or_default();
            accept.contains("application/openmetrics-text")
        };
        let format = match request.headers().get(ACCEPT).is_some_and(accepts) {
            true => TextFormat::OpenMetrics,
            false => TextFormat::Prometheus,
        };
        match self.metrics.page(format) {
            Ok(page) => respond(StatusCode::OK, format.content_type(), page),
            Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }
}

/// Returns the refusal of a request that does not only read.
pub(super) fn refuse_method(request: &Request<Incoming>) -> Option<Response<Full<Bytes>>> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    let allowed = HeaderValue::from_static("GET, HEAD");
    response.headers_mut().insert(ALLOW, allowed);
    Some(response)
}

/// Makes a response of plain text.
pub(super) fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", text.to_owned())
}

/// Makes a response of this content type.
fn respond(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
