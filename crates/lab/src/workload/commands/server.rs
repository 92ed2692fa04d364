//! `command-server`: reads the header of a command, then its body, and answers.

use std::net::SocketAddr;

use clap::Args;
use serde::Serialize;

use super::super::context::Context;
use super::super::peer::{ConnectionTruth, Peer, SocketOptions, listen, port_of};
use super::super::reply::serve_each;
use super::{ANSWER_BYTES, CommandHeader, CountedChannel, HEADER_BYTES, IttReporter, name_thread};
use crate::clock::now_ns;
use crate::error::LabError;

/// Options of `command-server`.
#[derive(Debug, Args)]
pub(crate) struct CommandServer {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Ends after this many connections have closed.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Sets TCP_QUICKACK after each receive call.
    #[arg(long)]
    quickack: bool,
    #[command(flatten)]
    socket: SocketOptions,
}

/// The calls that received a header, or a body.
#[derive(Debug, Clone, Serialize)]
struct ReceiveTruth {
    bytes: usize,
    /// Before the first call, `CLOCK_MONOTONIC`.
    start_ns: u64,
    /// After the last.
    end_ns: u64,
}

/// Truth that the server of commands prints: each header and body that it received.
#[derive(Debug, Serialize)]
pub(crate) struct CommandServerTruth {
    commands: u64,
    connections: Vec<ConnectionTruth>,
    /// By connection.
    headers: Vec<ReceiveTruth>,
    /// Those that are not empty; by connection.
    bodies: Vec<ReceiveTruth>,
}

/// Headers and bodies that the server received on one connection.
#[derive(Debug)]
struct ServedConnection {
    connection: ConnectionTruth,
    headers: Vec<ReceiveTruth>,
    bodies: Vec<ReceiveTruth>,
}

impl CommandServer {
    /// Accepts connections and answers commands.
    pub(crate) fn run(&self, context: &Context) -> Result<CommandServerTruth, LabError> {
        let reporter = IttReporter::begin(c"command-server")?;
        let listener = listen(self.listen, &self.socket)?;
        context.ready(port_of(&listener)?)?;
        let served = serve_each(&listener, self.connections, |peer| {
            self.serve(peer, &reporter)
        })?;
        Ok(CommandServerTruth {
            commands: served.iter().map(|one| one.headers.len() as u64).sum(),
            headers: served.iter().flat_map(|one| one.headers.clone()).collect(),
            bodies: served.iter().flat_map(|one| one.bodies.clone()).collect(),
            connections: served.into_iter().map(|one| one.connection).collect(),
        })
    }

    /// Answers the commands of one connection.
    fn serve(&self, peer: Peer, reporter: &IttReporter) -> Result<ServedConnection, LabError> {
        name_thread(c"command channel");
        let mut channel = CountedChannel {
            peer,
            reporter,
            quickack: self.quickack,
        };
        let (mut headers, mut bodies) = (Vec::new(), Vec::new());
        let mut header = [0; HEADER_BYTES];
        while let Some(received) = receive(&mut channel, &mut header)? {
            headers.push(received);
            let _task = reporter.task(&reporter.command);
            let body_bytes = CommandHeader::from_bytes(header).body_bytes as usize;
            if body_bytes > 0 {
                let mut body = vec![0; body_bytes];
                let received = receive(&mut channel, &mut body)?;
                bodies.push(received.ok_or_else(|| channel.peer.end_error(0, body_bytes))?);
            }
            let mut answer = [0; ANSWER_BYTES];
            answer[..HEADER_BYTES].copy_from_slice(&header);
            channel.send(&answer)?;
        }
        Ok(ServedConnection {
            connection: channel.close(),
            headers,
            bodies,
        })
    }
}

/// Receives until `bytes` is full; `None` at the end of the stream.
fn receive(
    channel: &mut CountedChannel<'_>,
    bytes: &mut [u8],
) -> Result<Option<ReceiveTruth>, LabError> {
    let start_ns = now_ns();
    let is_there = channel.receive(bytes)?;
    Ok(is_there.then(|| ReceiveTruth {
        bytes: bytes.len(),
        start_ns,
        end_ns: now_ns(),
    }))
}
