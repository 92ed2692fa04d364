//! Functions that stand in for the tracepoints of calls: on real calls of this process they see the same.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use table::manifest::ProbeState;

use super::Storage;
use super::tests::{load_for_waits, root};
use crate::calls::CALL_HOOKS;
use crate::interface::features::Features;

/// Messages that each pair of sockets exchanges.
const MESSAGES: usize = 13;

/// How many bytes a message over each kind of socket has: no other test sends so many at once.
const TCP4: usize = 10_007;
const TCP6: usize = 10_009;
const UDP4: usize = 10_037;
const UDP6: usize = 10_039;
const STREAM: usize = 10_061;
const SEQPACKET: usize = 10_067;
const SIZES: [usize; 6] = [TCP4, TCP6, UDP4, UDP6, STREAM, SEQPACKET];

/// Sends a message of this size, several times.
fn exchange(sender: &mut impl Write, receiver: &mut impl Read, bytes: usize) {
    let mut buffer = vec![0; bytes];
    for _ in 0..MESSAGES {
        sender.write_all(&buffer).unwrap();
        receiver.read_exact(&mut buffer).unwrap();
    }
}

/// Exchanges messages of this size over a new TCP connection.
fn exchange_over_tcp(address: &str, bytes: usize) {
    let listener = TcpListener::bind(address).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    exchange(&mut client, &mut server, bytes);
}

/// Sends datagrams of this size from one UDP socket to another.
fn exchange_over_udp(address: &str, bytes: usize) {
    let [one, other] = [(); 2].map(|()| UdpSocket::bind(address).unwrap());
    let mut buffer = vec![0; bytes];
    for _ in 0..MESSAGES {
        let to = other.local_addr().unwrap();
        assert_eq!(one.send_to(&buffer, to).unwrap(), bytes);
        assert_eq!(other.recv(&mut buffer).unwrap(), bytes);
    }
}

/// Sends packets of this size over a pair of Unix sockets.
fn exchange_packets([one, other]: &[OwnedFd; 2], bytes: usize) {
    let mut buffer = vec![0; bytes];
    for _ in 0..MESSAGES {
        let sent = send(one.as_raw_fd(), &buffer, MsgFlags::empty());
        assert_eq!(sent, Ok(bytes));
        let received = recv(other.as_raw_fd(), &mut buffer, MsgFlags::empty());
        assert_eq!(received, Ok(bytes));
    }
}

/// Returns the sends and receives of each size, as recorded while every kind of socket exchanges its messages; `None`:
/// this kernel lets no program attach to functions.
fn recorded_calls(features: Features) -> Option<BTreeMap<usize, (usize, usize)>> {
    let mut storage = Storage::uninit();
    let hooks = load_for_waits(&mut storage, features);
    if !hooks.has_calls() {
        return None;
    }
    for probe in ["udp_flows", "unix_sockets"] {
        let found = hooks.coverage().iter().find(|it| it.probe == probe);
        let state = &found.unwrap().state;
        assert!(
            !matches!(state, ProbeState::Off { .. }),
            "{probe}: {state:?}"
        );
    }
    hooks.attach().unwrap();
    hooks.record_process(std::process::id()).unwrap();

    exchange_over_tcp("127.0.0.1:0", TCP4);
    exchange_over_tcp("[::1]:0", TCP6);
    exchange_over_udp("127.0.0.1:0", UDP4);
    exchange_over_udp("[::1]:0", UDP6);
    let (mut one, mut other) = UnixStream::pair().unwrap();
    exchange(&mut one, &mut other, STREAM);
    let packets = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::empty(),
    );
    exchange_packets(&packets.unwrap().into(), SEQPACKET);

    hooks.detach().unwrap();
    hooks.flush().unwrap();
    let drainer = hooks.drainer().unwrap();
    while drainer.drain(usize::MAX, || ()) > 0 {}
    let calls = drainer.take().rows.calls;
    let counted = |bytes: usize, is_send| {
        let is_one = |at: &usize| {
            calls.result[*at] == i32::try_from(bytes).expect("a size")
                && calls.is_send[*at] == is_send
        };
        (0..calls.result.len()).filter(is_one).count()
    };
    let of_size = |bytes| (bytes, (counted(bytes, true), counted(bytes, false)));
    Some(SIZES.map(of_size).into())
}

#[test]
fn functions_see_the_calls_that_tracepoints_see() {
    if !root() {
        return;
    }
    let expected: BTreeMap<_, _> = SIZES.map(|bytes| (bytes, (MESSAGES, MESSAGES))).into();
    let mut features = Features::probe().unwrap();
    if features.sees_every_kind() {
        let by_tracepoints = recorded_calls(Features::probe().unwrap());
        assert_eq!(by_tracepoints.as_ref(), Some(&expected));
    }
    for hook in CALL_HOOKS {
        features.omit_program(&format!("handle_{}", hook.name));
    }
    match recorded_calls(features) {
        Some(by_functions) => assert_eq!(by_functions, expected),
        None => eprintln!("skipped: this kernel lets no program attach to functions"),
    }
}
