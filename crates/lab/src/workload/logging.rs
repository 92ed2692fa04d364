//! A logging application: `log-client` writes short records and waits for none of the answers that
//! `log-server` gives to some of them. Both know when each record was written and read.

use std::net::SocketAddr;

use clap::Args;
use serde::Serialize;

use super::context::{Context, ROUNDS_KEPT};
use super::peer::{ConnectionTruth, Peer, SocketOptions, listen, pause_us, port_of};
use super::reply::serve_each;
use crate::clock::now_ns;
use crate::error::LabError;
use crate::random::Random;

/// Options of `log-client`. The first byte of a record is its length.
#[derive(Debug, Args)]
pub(crate) struct LogClient {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    /// Records to write.
    #[arg(long, default_value_t = 1009)]
    records: u64,
    /// Bytes of the shortest record.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..))]
    least: u8,
    /// Bytes of the longest record.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(1..))]
    most: u8,
    /// Seed of the sizes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sleeps after each record.
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Options of `log-server`.
#[derive(Debug, Args)]
pub(crate) struct LogServer {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Ends after this many connections have closed.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Bytes asked for by each receive call.
    #[arg(long, default_value_t = 200)]
    read_size: usize,
    /// Answers every so many records; 0 never.
    #[arg(long, default_value_t = 0)]
    answer_every: u64,
    /// Bytes of an answer.
    #[arg(long, default_value_t = 20)]
    answer: usize,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Truth that the client prints: the time at which it wrote each record.
#[derive(Debug, Serialize)]
pub(crate) struct LogClientTruth {
    records: u64,
    connections: Vec<ConnectionTruth>,
    /// Each record: before the call that wrote it; `CLOCK_MONOTONIC`.
    written_ns: Vec<u64>,
}

/// Truth that the server prints: the time at which it had read each record.
#[derive(Debug, Serialize)]
pub(crate) struct LogServerTruth {
    answers: u64,
    connections: Vec<ConnectionTruth>,
    /// Each record: after the call that read its end; `CLOCK_MONOTONIC`. By connection.
    read_ns: Vec<u64>,
}

impl LogClient {
    /// Sends requests to the logging server.
    pub(crate) fn run(&self, context: &Context) -> Result<LogClientTruth, LabError> {
        let mut peer = Peer::connect(self.connect, &self.socket)?;
        context.start(peer.port())?;
        let mut sizes = Random::new(self.seed);
        let range = u64::from(self.most.saturating_sub(self.least)) + 1;
        let mut written_ns = Vec::new();
        for _ in 0..self.records {
            let size = usize::from(self.least) + sizes.below(range) as usize;
            let mut record = vec![0x6c; size];
            record[0] = size as u8;
            if written_ns.len() < ROUNDS_KEPT {
                written_ns.push(now_ns());
            }
            peer.send_all(&record)?;
            pause_us(self.pause_us);
        }
        peer.end_of_stream()?;
        while peer.recv(&mut [0; 4096])? > 0 {}
        Ok(LogClientTruth {
            records: self.records,
            connections: vec![peer.close()],
            written_ns,
        })
    }
}

impl LogServer {
    /// Serves requests, and writes a line of a log for each.
    pub(crate) fn run(&self, context: &Context) -> Result<LogServerTruth, LabError> {
        let listener = listen(self.listen, &self.socket)?;
        context.ready(port_of(&listener)?)?;
        let served = serve_each(&listener, self.connections, |peer| self.serve(peer))?;
        Ok(LogServerTruth {
            answers: served.iter().map(|(_, answers, _)| answers).sum(),
            read_ns: served.iter().flat_map(|one| one.2.clone()).collect(),
            connections: served.into_iter().map(|one| one.0).collect(),
        })
    }

    /// Answers one connection; returns its counts, the number of answers, and the time of each
    /// read.
    fn serve(&self, mut peer: Peer) -> Result<(ConnectionTruth, u64, Vec<u64>), LabError> {
        let mut buffer = vec![0; self.read_size.max(1)];
        let answer = vec![0x6b; self.answer];
        let (mut unread, mut records, mut answers) = (Vec::new(), 0, 0);
        let mut read_ns = Vec::new();
        loop {
            let got = peer.recv(&mut buffer)?;
            if got == 0 {
                return Ok((peer.close(), answers, read_ns));
            }
            let time_ns = now_ns();
            unread.extend_from_slice(&buffer[..got]);
            while let Some(size) = unread.first().map(|size| usize::from(*size).max(1))
                && size <= unread.len()
            {
                unread.drain(..size);
                records += 1;
                if read_ns.len() < ROUNDS_KEPT {
                    read_ns.push(time_ns);
                }
                if self.answer_every > 0 && records % self.answer_every == 0 {
                    peer.send_all(&answer)?;
                    answers += 1;
                }
            }
        }
    }
}
