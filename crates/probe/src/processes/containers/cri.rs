//! Labels of pods on containerd's socket. In: the socket, and the id of a sandbox or none. Out: sandboxes with their pods and
//! labels, by `ListPodSandbox` of CRI (`runtime.v1`).
//!
//! containerd writes labels to no file that may be read while it runs. Its socket can do far more than list, so only
//! root may open it; nothing but this one call is made. A runtime may lie, be slow or be broken: an answer is bounded in
//! time and size.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prost::Message;
use prost::bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tokio::net::UnixStream;

use super::pod::Pod;
use super::workload::PodLabels;

/// Sockets of containerd: its own, of k3s and of MicroK8s. The one that Docker starts has no CRI.
const SOCKETS: [&str; 3] = [
    "run/containerd/containerd.sock",
    "run/k3s/containerd/containerd.sock",
    "var/snap/microk8s/common/run/containerd.sock",
];
const LIST: &str = "http://localhost/runtime.v1.RuntimeService/ListPodSandbox";

/// Longest wait for an answer: that of `crictl`. In tests, of a busy machine.
const LONGEST_WAIT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 2 });
/// Longest answer: containerd sends none above it (`defaults.DefaultMaxSendMsgSize`).
const MOST_BYTES: u32 = 16 << 20;
/// Sandboxes of an answer: in memory they take as much as the longest answer. An item of two bytes would take 70 times as
/// much.
const MOST_ITEMS: usize = MOST_BYTES as usize / size_of::<Item>();
/// Labels of an answer, for the same reason; each has two texts, for which the allocator takes 32 bytes at least
/// (`MINSIZE` of glibc).
const MOST_LABELS: usize = MOST_BYTES as usize / (size_of::<(String, String)>() + 2 * 32);
/// Number of the field of a list that has its items.
const ITEMS: u32 = 1;
/// Number of the field of an item that has its labels.
const LABELS: u32 = 5;
/// Bytes before a message: whether it is compressed, and its length (gRPC over HTTP/2).
const PREFIX_BYTES: usize = 5;

#[derive(Clone, PartialEq, Message)]
struct ListRequest {
    #[prost(message, optional, tag = "1")]
    filter: Option<Filter>,
}

#[derive(Clone, PartialEq, Message)]
struct Filter {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct ListResponse {
    #[prost(message, repeated, tag = "1")]
    items: Vec<Item>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Item {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(message, optional, tag = "2")]
    metadata: Option<Metadata>,
    #[prost(map = "string, string", tag = "5")]
    labels: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

/// A sandbox as the runtime reports it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SandboxAnswer {
    pub(super) id: String,
    pub(super) pod: Pod,
    pub(super) labels: PodLabels,
}

/// Returns the sockets that exist.
pub(super) fn sockets(root: &Path) -> Vec<PathBuf> {
    let sockets = SOCKETS.iter().map(|socket| root.join(socket));
    sockets.filter(|socket| socket.exists()).collect()
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// This process may not open the socket.
    NotPermitted,
    /// Nobody listens, or what comes in time is no answer.
    NoAnswer,
}

/// Lists the sandboxes of a runtime, or the one with this id.
pub(super) fn list(socket: &Path, id: Option<&str>) -> Result<Vec<SandboxAnswer>, Silence> {
    list_within(socket, id, LONGEST_WAIT)
}

fn list_within(
    socket: &Path,
    id: Option<&str>,
    wait: Duration,
) -> Result<Vec<SandboxAnswer>, Silence> {
    let filter = id.map(|id| Filter { id: id.to_owned() });
    let request = ListRequest { filter };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().enable_time().build();
    let runtime = runtime.map_err(|_| Silence::NoAnswer)?;
    let call = async { tokio::time::timeout(wait, call(socket, &request)).await };
    let response = runtime.block_on(call).unwrap_or(Err(Silence::NoAnswer))?;
    let items = response.items.into_iter();
    Ok(items.filter_map(Item::check).collect())
}

impl Item {
    /// Returns the sandbox, if its pod has names that Kubernetes allows.
    fn check(self) -> Option<SandboxAnswer> {
        let Metadata {
            name,
            uid,
            namespace,
        } = self.metadata?;
        Some(SandboxAnswer {
            id: self.id,
            pod: Pod::from_names(&namespace, &name, Some(&uid))?,
            labels: PodLabels::choose(|key| self.labels.get(key).map(String::as_str)),
        })
    }
}

async fn call(socket: &Path, request: &ListRequest) -> Result<ListResponse, Silence> {
    let stream = UnixStream::connect(socket).await;
    let stream = stream.map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Silence::NotPermitted,
        _ => Silence::NoAnswer,
    })?;
    call_on(stream, request).await.ok_or(Silence::NoAnswer)
}

async fn call_on(stream: UnixStream, request: &ListRequest) -> Option<ListResponse> {
    let mut settings = h2::client::Builder::new();
    settings
        .initial_window_size(MOST_BYTES)
        .initial_connection_window_size(MOST_BYTES)
        .enable_push(false);
    let (client, connection) = settings.handshake(stream).await.ok()?;
    // it ends with the runtime
    tokio::spawn(connection);
    let head = http::Request::post(LIST)
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let mut client = client.ready().await.ok()?;
    let (answer, mut body) = client.send_request(head.body(()).ok()?, false).ok()?;
    body.send_data(frame(request), true).ok()?;
    let mut answer = answer.await.ok()?.into_body();
    let mut bytes = Vec::new();
    while let Some(part) = answer.data().await {
        let part = part.ok()?;
        if bytes.len() + part.len() > MOST_BYTES as usize {
            return None;
        }
        bytes.extend_from_slice(&part);
        answer.flow_control().release_capacity(part.len()).ok()?;
    }
    let trailers = answer.trailers().await.ok()??;
    let is_sound = trailers.get("grpc-status").is_some_and(|it| it == "0");
    is_sound.then(|| unframe(&bytes)).flatten()
}

/// Puts the prefix of gRPC before a message, which is not compressed.
fn frame(request: &ListRequest) -> Bytes {
    let message = request.encode_to_vec();
    let mut bytes = vec![0];
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend(message);
    bytes.into()
}

fn unframe(bytes: &[u8]) -> Option<ListResponse> {
    let (prefix, message) = bytes.split_at_checked(PREFIX_BYTES)?;
    let length = (message.len() as u32).to_be_bytes();
    let is_whole = prefix[0] == 0 && prefix[1..] == length;
    let (items, labels) = count_parts(message)?;
    let is_decoded = is_whole && items <= MOST_ITEMS && labels <= MOST_LABELS;
    is_decoded.then(|| ListResponse::decode(message).ok())?
}

/// Returns how many items a list has, and how many labels they have; `None`: it is none.
fn count_parts(message: &[u8]) -> Option<(usize, usize)> {
    let (mut items, mut labels) = (0, 0);
    each_field(message, |number, content| {
        if number == ITEMS {
            items += 1;
            each_field(content, |number, _| {
                labels += usize::from(number == LABELS);
                Some(())
            })?;
        }
        Some(())
    })?;
    Some((items, labels))
}

/// Calls `each` with number and content of each field of a message; of numbers the content is empty. `None`: it is no
/// message, or `each` returned that.
fn each_field(mut message: &[u8], mut each: impl FnMut(u32, &[u8]) -> Option<()>) -> Option<()> {
    while message.has_remaining() {
        let (number, kind) = decode_key(&mut message).ok()?;
        let content = match kind {
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut message).ok()?).ok()?;
                let (content, rest) = message.split_at_checked(length)?;
                message = rest;
                content
            }
            _ => {
                skip_field(kind, number, &mut message, DecodeContext::default()).ok()?;
                &[]
            }
        };
        each(number, content)?;
    }
    Some(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::thread::{self, JoinHandle};

    use super::*;

    /// For an answer that comes: a busy machine is slow.
    const LONG_WAIT: Duration = Duration::from_secs(60);
    /// For one that does not.
    const SHORT_WAIT: Duration = Duration::from_millis(50);

    const ID: &str = "3f4e5a6b7c8d9e0f112233445566778899aabbccddeeff00112233445566778f";

    /// A sandbox of a pod `shop/NAME` with labels.
    pub(in super::super) fn sandbox(id: &str, name: &str, labels: &[(&str, &str)]) -> Item {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Item {
            id: id.to_owned(),
            metadata: Some(Metadata {
                name: name.to_owned(),
                uid: "7d3c1f2e-5a64-4b1c-9c37-0f1e2d3c4b5a".to_owned(),
                namespace: "shop".to_owned(),
            }),
            labels: labels.iter().map(owned).collect(),
        }
    }

    fn item(name: &str) -> Item {
        sandbox(ID, name, &[("pod-template-hash", "6d4cf56db6")])
    }

    pub(in super::super) fn response(items: Vec<Item>) -> Vec<u8> {
        let message = ListResponse { items }.encode_to_vec();
        let mut bytes = vec![0];
        bytes.extend((message.len() as u32).to_be_bytes());
        bytes.extend(message);
        bytes
    }

    /// Returns the answer to a runtime that sends these bytes and this status; of no status, it sends no end.
    fn answer_to(bytes: Vec<u8>, status: Option<&'static str>) -> Option<Vec<SandboxAnswer>> {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("containerd.sock");
        let server = serve_once(&socket, bytes, status);
        let wait = match status {
            Some(_) => LONG_WAIT,
            None => SHORT_WAIT,
        };
        let answer = list_within(&socket, Some(ID), wait);
        server.join().expect("served");
        answer.ok()
    }

    /// Serves one connection to a socket, as a runtime that sends these bytes and this status.
    pub(in super::super) fn serve_once(
        socket: &Path,
        bytes: Vec<u8>,
        status: Option<&'static str>,
    ) -> JoinHandle<()> {
        let listener = UnixListener::bind(socket).expect("bound");
        listener.set_nonblocking(true).expect("set");
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(serve(listener, bytes, status));
        })
    }

    async fn serve(listener: UnixListener, bytes: Vec<u8>, status: Option<&'static str>) {
        let listener = tokio::net::UnixListener::from_std(listener).expect("a listener");
        let (stream, _) = listener.accept().await.expect("accepted");
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        let mut kept = Vec::new();
        // goes on until the client closes
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            assert_eq!(
                request.uri().path(),
                "/runtime.v1.RuntimeService/ListPodSandbox"
            );
            let head = http::Response::new(());
            let mut body = respond.send_response(head, false).expect("sent");
            body.send_data(Bytes::from(bytes.clone()), false)
                .expect("sent");
            if let Some(status) = status {
                let mut trailers = http::HeaderMap::new();
                trailers.insert("grpc-status", status.parse().expect("a value"));
                body.send_trailers(trailers).expect("sent");
            }
            kept.push(body);
        }
    }

    #[test]
    fn sandboxes_are_listed_with_their_pods_and_labels() {
        let found = answer_to(response(vec![item("web-6d4cf56db6-x2k8p")]), Some("0"));
        let found = found.expect("an answer");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, ID);
        assert_eq!(found[0].pod.to_string(), "shop/web-6d4cf56db6-x2k8p");
        let expected =
            PodLabels::choose(|key| (key == "pod-template-hash").then_some("6d4cf56db6"));
        assert_eq!(found[0].labels, expected);
        // 30,000 pods in 4 MB: more than HTTP/2's own window of 64 kB
        let many = answer_to(response(vec![item("web"); 30_000]), Some("0"));
        assert_eq!(many.map(|it| it.len()), Some(30_000));
    }

    #[test]
    fn broken_answers_are_none() {
        let whole = response(vec![item("web")]);
        let mut cut = whole.clone();
        cut.pop();
        let mut compressed = whole.clone();
        compressed[0] = 1;
        let mut other = whole.clone();
        let last = other.len() - 1;
        other[last] = 0xff;
        for bytes in [cut, compressed, other, Vec::new(), vec![0; 4]] {
            let begin = format!("{:?}", &bytes[..bytes.len().min(8)]);
            assert_eq!(answer_to(bytes, Some("0")), None, "{begin}");
        }
        // 12: not implemented
        assert_eq!(answer_to(whole, Some("12")), None);
        // a pod with a name that Kubernetes gives to none
        let escape = answer_to(response(vec![item("web\u{1b}[2J")]), Some("0"));
        assert_eq!(escape, Some(Vec::new()));
    }

    #[test]
    fn answer_above_the_bound_is_none() {
        let huge = response(vec![item(&"x".repeat(17 << 20))]);
        assert_eq!(answer_to(huge, Some("0")), None);
    }

    /// Each takes two bytes of the answer, and much more in memory.
    #[test]
    fn more_items_than_fit_into_memory_are_not_decoded() {
        let empty = Item::default();
        let list = |count| unframe(&response(vec![empty.clone(); count])).map(|it| it.items.len());
        assert_eq!(list(MOST_ITEMS), Some(MOST_ITEMS));
        assert_eq!(list(MOST_ITEMS + 1), None);
    }

    #[test]
    fn more_labels_than_fit_into_memory_are_not_decoded() {
        let keys: Vec<_> = (0..=MOST_LABELS).map(|it| it.to_string()).collect();
        let labels: Vec<_> = keys.iter().map(|key| (key.as_str(), "")).collect();
        let list = |labels: &[(&str, &str)]| {
            // two sandboxes share them
            let (first, second) = labels.split_at(labels.len() / 2);
            let items = [first, second].map(|it| sandbox(ID, "web", it));
            unframe(&response(items.into())).map(|it| it.items.len())
        };
        assert_eq!(list(&labels[1..]), Some(2));
        assert_eq!(list(&labels), None);
    }

    #[test]
    fn damaged_lists_are_none() {
        let whole = &response(vec![item("web")])[PREFIX_BYTES..];
        assert_eq!(count_parts(whole), Some((1, 1)));
        for bytes in 1..whole.len() {
            assert_eq!(count_parts(&whole[..bytes]), None, "{bytes}");
        }
    }

    #[test]
    fn runtime_without_an_answer_is_left_after_the_wait() {
        assert_eq!(answer_to(response(vec![item("web")]), None), None);
        // nobody speaks HTTP/2, or anything
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("containerd.sock");
        let list = |wait| list_within(&socket, None, wait).ok();
        assert_eq!(list(LONG_WAIT), None, "no socket");
        let listener = UnixListener::bind(&socket).expect("bound");
        assert_eq!(list(SHORT_WAIT), None, "nobody accepts");
        let server = thread::spawn(move || {
            let (mut first, _) = listener.accept().expect("the one before");
            let mut preface = [0; 16];
            first.read_exact(&mut preface).expect("read");
            let (mut second, _) = listener.accept().expect("accepted");
            second
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .expect("written");
        });
        assert_eq!(list(LONG_WAIT), None, "no HTTP/2");
        server.join().expect("served");
    }
}
