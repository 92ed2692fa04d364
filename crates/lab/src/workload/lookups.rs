//! `name-server`: answers questions for addresses by UDP, and leaves some out. `lookup-client`: asks it by glibc's resolver,
//! connects to the address, and asks there.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;

use clap::Args;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde::Serialize;

use super::context::Context;
use super::peer::{ConnectionTruth, Peer, SocketOptions, pause_us};
use super::until_end::wait_readable;
use crate::clock::now_ns;
use crate::error::{HINT_ROOT, LabError};

/// Bytes of the header of a DNS message (RFC 1035, 4.1.1).
const HEADER: usize = 12;
/// Type of a question for an IPv4 address (RFC 1035, 3.2.2).
const TYPE_A: u16 = 1;

/// Options of `name-server`.
#[derive(Debug, Args)]
pub(crate) struct NameServer {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.53:53")]
    listen: SocketAddr,
    /// Does not answer every so many questions for an IPv4 address; 0 answers all.
    #[arg(long, default_value_t = 0)]
    drop_every: u64,
}

/// Truth that the name server prints: the questions that it received and did not answer.
#[derive(Debug, Default, Serialize)]
pub(crate) struct NameServerTruth {
    questions: u64,
    /// Questions without an answer.
    dropped: u64,
}

impl NameServer {
    /// Answers DNS questions, late or not at all as asked.
    pub(crate) fn run(&self, context: &Context) -> Result<NameServerTruth, LabError> {
        let failed = |action, why: std::io::Error| {
            LabError::os(action, self.listen.to_string(), why, HINT_ROOT)
        };
        let socket = UdpSocket::bind(self.listen).map_err(|why| failed("listen on", why))?;
        context.ready(self.listen.port())?;
        let stdin = std::io::stdin();
        let (mut truth, mut of_a) = (NameServerTruth::default(), 0);
        let mut message = [0; 512];
        while wait_readable(&[stdin.as_fd(), socket.as_fd()], None)?.first() == Some(&1) {
            let received = socket.recv_from(&mut message);
            let (length, from) = received.map_err(|why| failed("receive on", why))?;
            let Some((answer, kind)) = make_answer(&message[..length]) else {
                continue;
            };
            truth.questions += 1;
            of_a += u64::from(kind == TYPE_A);
            if kind == TYPE_A && self.drop_every > 0 && of_a % self.drop_every == 0 {
                truth.dropped += 1;
                continue;
            }
            let sent = socket.send_to(&answer, from);
            sent.map_err(|why| failed("answer on", why))?;
        }
        Ok(truth)
    }
}

/// Returns the answer to a question, and its type. The first label of a name says the address: `10-77-0-2.lab`.
fn make_answer(message: &[u8]) -> Option<(Vec<u8>, u16)> {
    let label_length = usize::from(*message.get(HEADER)?);
    let label = message.get(HEADER + 1..HEADER + 1 + label_length)?;
    let mut at = HEADER;
    while *message.get(at)? != 0 {
        at += 1 + usize::from(message[at]);
    }
    let question = message.get(HEADER..at + 5)?;
    let kind = u16::from_be_bytes([*message.get(at + 1)?, *message.get(at + 2)?]);
    let address = std::str::from_utf8(label).ok()?.replace('-', ".");
    let address: Ipv4Addr = address.parse().ok()?;
    let answers = u16::from(kind == TYPE_A).to_be_bytes();
    let mut answer = message.get(..2)?.to_vec();
    // a response, recursion desired and available; one question
    answer.extend([0x81, 0x80, 0, 1, answers[0], answers[1], 0, 0, 0, 0]);
    answer.extend(question);
    if kind == TYPE_A {
        // the name at the question, type A, class IN, no time to live, four bytes
        answer.extend([0xc0, HEADER as u8, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    Some((answer, kind))
}

/// Options of `lookup-client`.
#[derive(Debug, Args)]
pub(crate) struct LookupClient {
    /// Server to connect to; its address is resolved.
    #[arg(long)]
    connect: SocketAddr,
    /// Requests, each with a look-up and a connection of its own.
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    /// Bytes of a request, and of a reply.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Sleeps after each.
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
    /// Name server to ask.
    #[arg(long, default_value = "127.0.0.53")]
    name_server: IpAddr,
    /// Asks again after so many seconds without an answer (`timeout` in resolv.conf).
    #[arg(long, default_value_t = 1)]
    timeout_s: u64,
}

/// Truth that the client prints: its requests and the duration of their look-ups.
#[derive(Debug, Serialize)]
pub(crate) struct LookupTruth {
    requests: u64,
    /// Time of the look-ups, together.
    lookup_ns: u64,
    /// Look-ups of a second or more, the least time limit.
    slow_lookups: u64,
    connections: Vec<ConnectionTruth>,
}

impl LookupClient {
    /// Looks up names, and returns the time of each.
    pub(crate) fn run(&self, context: &Context) -> Result<LookupTruth, LabError> {
        const SECOND_NS: u64 = 1_000_000_000;
        self.set_resolver()?;
        context.start(0)?;
        let name = format!("{}.lab", self.connect.ip().to_string().replace('.', "-"));
        let mut truth = LookupTruth {
            requests: self.rounds,
            lookup_ns: 0,
            slow_lookups: 0,
            connections: Vec::new(),
        };
        let mut bytes = vec![0x71; self.bytes];
        for _ in 0..self.rounds {
            let begin_ns = now_ns();
            let found = (name.as_str(), self.connect.port()).to_socket_addrs();
            let found = found.map(|mut addresses| addresses.next());
            let lookup_ns = now_ns() - begin_ns;
            truth.lookup_ns += lookup_ns;
            truth.slow_lookups += u64::from(lookup_ns >= SECOND_NS);
            let hint = "`hosts` of /etc/nsswitch.conf must have dns";
            let found = found.map_err(|why| LabError::os("look up", &name, why, hint))?;
            let address = found.unwrap_or(self.connect);
            let mut peer = Peer::connect(address, &SocketOptions::default())?;
            peer.send_all(&bytes)?;
            if !peer.recv_exact(&mut bytes)? {
                return Err(peer.end_error(0, self.bytes));
            }
            truth.connections.push(peer.close());
            pause_us(self.pause_us);
        }
        Ok(truth)
    }

    /// Gives this process a resolv.conf of its own, in a mount namespace that ends with it.
    fn set_resolver(&self) -> Result<(), LabError> {
        const FOLDER: &str = "/mnt";
        const FILE: &str = "/mnt/resolv.conf";
        const CONFIGURATION: &str = "/etc/resolv.conf";
        let none: Option<&str> = None;
        let failed = |why: nix::Error| LabError::os("replace", CONFIGURATION, why, HINT_ROOT);
        let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
        unshare(CloneFlags::CLONE_NEWNS)
            .and_then(|()| mount(none, "/", none, private, none))
            .and_then(|()| mount(Some("none"), FOLDER, Some("tmpfs"), MsFlags::empty(), none))
            .map_err(failed)?;
        let text = format!(
            "nameserver {}\noptions timeout:{} attempts:4\n",
            self.name_server, self.timeout_s
        );
        fs::write(FILE, text).map_err(|why| LabError::os("write", FILE, why, HINT_ROOT))?;
        mount(Some(FILE), CONFIGURATION, none, MsFlags::MS_BIND, none).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_for_an_address_is_answered_by_its_name() {
        let mut question = vec![7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        question.extend(b"\x0910-77-0-2\x03lab\x00\x00\x01\x00\x01");
        let (reply, kind) = make_answer(&question).unwrap();
        assert_eq!(kind, TYPE_A);
        assert_eq!(reply[..2], [7, 8]);
        assert_eq!(reply[reply.len() - 4..], [10, 77, 0, 2]);
        let at = question.len() - 3;
        question[at] = 28;
        let (reply, kind) = make_answer(&question).unwrap();
        assert_eq!((kind, reply.len()), (28, question.len()));
        assert!(make_answer(&question[..14]).is_none());
    }
}
