//! `datagram-server`: answers datagrams one by one. `datagram-client`: asks by many at once, each from a socket of its own, and
//! repeats what has no answer after a while.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use clap::Args;
use serde::Serialize;
use socket2::{Domain, Socket, Type};

use super::context::Context;
use super::cpu::ThreadCpu;
use super::peer::pause_us;
use super::until_end::wait_readable;
use crate::clock::now_ns;
use crate::error::LabError;

/// Options of `datagram-server`.
#[derive(Debug, Args)]
pub(crate) struct DatagramServer {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// SO_RCVBUF in bytes (the kernel doubles it).
    #[arg(long)]
    rcvbuf: Option<usize>,
    /// Sleeps so long before each answer.
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
}

/// Truth that `datagram-server` prints: the datagrams that it answered.
#[derive(Debug, Serialize)]
pub(crate) struct DatagramServerTruth {
    answers: u64,
    /// Rules that are true of it by its options: its one thread sleeps while it has a request.
    also_true: Vec<&'static str>,
    /// Its thread from the start on; the kernel may not count it.
    thread: Option<ThreadCpu>,
    connections: [u8; 0],
}

/// Largest datagram here.
const BYTES_MOST: usize = 1_472;

/// Makes the error of a failed call on a UDP socket.
fn datagram_error(action: &'static str, address: SocketAddr, why: std::io::Error) -> LabError {
    LabError::os(
        action,
        address.to_string(),
        why,
        "use a free port of this host",
    )
}

impl DatagramServer {
    /// Answers questions by UDP until enough have come.
    pub(crate) fn run(&self, context: &Context) -> Result<DatagramServerTruth, LabError> {
        let socket = self
            .socket()
            .map_err(|why| datagram_error("listen on", self.listen, why))?;
        let local = socket.local_addr();
        context.ready(
            local
                .map_err(|why| datagram_error("name", self.listen, why))?
                .port(),
        )?;
        let stdin = std::io::stdin();
        let (mut message, mut answers) = ([0; BYTES_MOST], 0);
        // what has come is answered before the end
        while wait_readable(&[socket.as_fd(), stdin.as_fd()], None)?.first() == Some(&0) {
            let received = socket.recv_from(&mut message);
            let (length, from) =
                received.map_err(|why| datagram_error("receive on", self.listen, why))?;
            pause_us(self.pause_us);
            let sent = socket.send_to(&message[..length], from);
            sent.map_err(|why| datagram_error("answer to", from, why))?;
            answers += 1;
        }
        Ok(DatagramServerTruth {
            answers,
            also_true: match self.pause_us {
                0 => Vec::new(),
                _ => vec!["busy_workers", "timer_wait"],
            },
            thread: ThreadCpu::read_own(),
            connections: [],
        })
    }

    /// Opens the server's socket.
    fn socket(&self) -> std::io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(self.listen), Type::DGRAM, None)?;
        if let Some(bytes) = self.rcvbuf {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.bind(&self.listen.into())?;
        Ok(socket.into())
    }
}

/// Options of `datagram-client`.
#[derive(Debug, Args)]
pub(crate) struct DatagramClient {
    /// Server to ask.
    #[arg(long)]
    connect: SocketAddr,
    /// Times that it asks.
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    /// Questions at once.
    #[arg(long, default_value_t = 20)]
    burst: usize,
    /// Bytes of a question, and of an answer.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Repeats a question that has no answer after so long.
    #[arg(long, default_value_t = 200)]
    limit_ms: u64,
    /// Sleeps after each round.
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
}

/// Truth that `datagram-client` prints: questions, those that it repeated, and how long the rounds took, ns.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DatagramClientTruth {
    questions: u64,
    repeated: u64,
    round_ns: u64,
    connections: [u8; 0],
}

impl DatagramClient {
    /// Asks questions by UDP, and repeats those without an answer.
    pub(crate) fn run(&self, context: &Context) -> Result<DatagramClientTruth, LabError> {
        let sockets = (0..self.burst).map(|_| self.socket());
        let sockets: Vec<UdpSocket> = sockets.collect::<Result<_, _>>()?;
        context.start(0)?;
        let mut truth = DatagramClientTruth::default();
        for _ in 0..self.rounds {
            let begin_ns = now_ns();
            let mut open: Vec<&UdpSocket> = sockets.iter().collect();
            self.ask(&open)?;
            truth.questions += open.len() as u64;
            while !open.is_empty() {
                self.take_answers(&mut open)?;
                self.ask(&open)?;
                truth.repeated += open.len() as u64;
            }
            truth.round_ns += now_ns() - begin_ns;
            pause_us(self.pause_us);
        }
        Ok(truth)
    }

    /// Opens a socket of the client.
    fn socket(&self) -> Result<UdpSocket, LabError> {
        let made = Socket::new(Domain::for_address(self.connect), Type::DGRAM, None);
        let connected = made.and_then(|socket| {
            socket.connect(&self.connect.into())?;
            Ok(UdpSocket::from(socket))
        });
        connected.map_err(|why| datagram_error("ask", self.connect, why))
    }

    /// Sends one question on each socket.
    fn ask(&self, sockets: &[&UdpSocket]) -> Result<(), LabError> {
        let question = vec![0x71; self.bytes.min(BYTES_MOST)];
        for socket in sockets {
            let sent = socket.send(&question);
            sent.map_err(|why| datagram_error("ask", self.connect, why))?;
        }
        Ok(())
    }

    /// Reads answers until all sockets have one, or none came for so long; leaves the sockets
    /// without one. Answers to a question that was repeated meanwhile are taken with it.
    fn take_answers(&self, open: &mut Vec<&UdpSocket>) -> Result<(), LabError> {
        let mut answer = [0; BYTES_MOST];
        while !open.is_empty() {
            let descriptors: Vec<_> = open.iter().map(|socket| socket.as_fd()).collect();
            let ready = wait_readable(&descriptors, Some(self.limit_ms * 1_000))?;
            if ready.is_empty() {
                return Ok(());
            }
            for place in ready.into_iter().rev() {
                let socket = open.swap_remove(place);
                let received = socket.recv(&mut answer);
                received.map_err(|why| datagram_error("hear from", self.connect, why))?;
            }
        }
        Ok(())
    }
}
