//! `command-client`: starts up by many commands, then asks now and then.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::super::context::Context;
use super::super::peer::{ConnectionTruth, Peer, SocketOptions, pause_us};
use super::super::rounds::in_series;
use super::{ANSWER_BYTES, CommandHeader, CountedChannel, HEADER_BYTES, IttReporter};
use crate::clock::now_ns;
use crate::error::LabError;
use crate::random::Random;

/// Options of `command-client`.
#[derive(Debug, Args)]
pub(crate) struct CommandClient {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    /// Commands at start-up.
    #[arg(long, default_value_t = 80)]
    commands: u32,
    /// Every so many commands is a large one; 0: none.
    #[arg(long, default_value_t = 4)]
    large_every: u32,
    /// Bytes of the shortest body of a small command; the longest is eight times as long.
    #[arg(long, default_value_t = 12)]
    small: u64,
    /// Bytes of the shortest body of a large command; the longest is three times as long.
    #[arg(long, default_value_t = 4000)]
    large: u64,
    /// Seed of the sizes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How a command is handed to the kernel.
    #[arg(long, value_enum, default_value = "two")]
    writes: WriteMethod,
    /// Headers without a body that are sent after start-up.
    #[arg(long, default_value_t = 60)]
    polls: u32,
    /// Sleeps before each of these.
    #[arg(long, default_value_t = 5_000)]
    poll_pause_us: u64,
    /// Answers waited for at least so long count as stalled.
    #[arg(long, default_value_t = 25)]
    stall_ms: u64,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Calls by which a command is handed to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WriteMethod {
    /// Header and body by a call each.
    Two,
    /// Both by one gathering call (writev).
    Gathered,
    /// Both in one buffer, by one call.
    Joined,
}

/// One command.
#[derive(Debug, Clone, Serialize)]
struct CommandTruth {
    /// Bytes after the header.
    body_bytes: u64,
    /// Before the first call that sent it, `CLOCK_MONOTONIC`.
    start_ns: u64,
    /// After the last one.
    sent_ns: u64,
    /// After the call that received its answer.
    answered_ns: u64,
}

/// Truth that a client of commands prints: times and calls of start-up, then of the requests.
#[derive(Debug, Serialize)]
pub(crate) struct CommandClientTruth {
    /// From the first command to the answer of the last.
    startup_ns: u64,
    /// When it was ready, `CLOCK_MONOTONIC`.
    ready_ns: u64,
    /// Commands of start-up that waited for their answers as long as a stall.
    stalled_commands: u64,
    /// Those, from the last call that sent them to the answer.
    stalled_ns: u64,
    /// Commands of start-up, in turn.
    commands: Vec<CommandTruth>,
    /// The requests after that.
    polls: Vec<CommandTruth>,
    /// Rules that are true of it by its options: it sends no command before the answer to the one before.
    also_true: Vec<&'static str>,
    connections: Vec<ConnectionTruth>,
}

/// Returns the duration of the one in the middle, ns.
fn median_ns(commands: &[CommandTruth]) -> u64 {
    let durations = commands.iter().map(|one| one.answered_ns - one.start_ns);
    let mut sorted: Vec<u64> = durations.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

impl CommandClient {
    /// Sends commands to a server, and returns the time of each.
    pub(crate) fn run(&self, context: &Context) -> Result<CommandClientTruth, LabError> {
        let reporter = IttReporter::begin(c"command-client")?;
        let peer = Peer::connect(self.connect, &self.socket)?;
        context.start(peer.port())?;
        let mut channel = CountedChannel {
            peer,
            reporter: &reporter,
            quickack: false,
        };
        let start_ns = now_ns();
        let commands = self.start_up(&mut channel)?;
        let ready_ns = now_ns();
        let polls = self.poll(&mut channel)?;
        let waits_ns = commands.iter().map(|one| one.answered_ns - one.sent_ns);
        let stalls_ns: Vec<u64> = waits_ns
            .filter(|ns| *ns >= self.stall_ms * 1_000_000)
            .collect();
        Ok(CommandClientTruth {
            startup_ns: ready_ns - start_ns,
            ready_ns,
            stalled_commands: stalls_ns.len() as u64,
            stalled_ns: stalls_ns.iter().sum(),
            also_true: in_series(commands.len(), 0, median_ns(&commands)),
            commands,
            polls,
            connections: vec![channel.close()],
        })
    }

    /// Sends the commands of the start: most small, some large.
    fn start_up(&self, channel: &mut CountedChannel<'_>) -> Result<Vec<CommandTruth>, LabError> {
        let _task = channel.reporter.task(&channel.reporter.start_up);
        let mut sizes = Random::new(self.seed);
        let body = |number: u32| {
            let is_large = number.is_multiple_of(self.large_every);
            let (least, times) = if is_large {
                (self.large, 3)
            } else {
                (self.small, 8)
            };
            least + sizes.below(least * (times - 1) + 1)
        };
        let bodies: Vec<u64> = (1..=self.commands).map(body).collect();
        let command = |(number, bytes)| self.command(channel, self.writes, number, bytes);
        (1..).zip(bodies).map(command).collect()
    }

    /// Sends small commands with pauses between.
    fn poll(&self, channel: &mut CountedChannel<'_>) -> Result<Vec<CommandTruth>, LabError> {
        let mut asked = Vec::new();
        for number in 0..self.polls {
            pause_us(self.poll_pause_us);
            let number = self.commands + 1 + number;
            asked.push(self.command(channel, WriteMethod::Joined, number, 0)?);
        }
        Ok(asked)
    }

    /// Sends one command, waits for its answer, and returns its times.
    fn command(
        &self,
        channel: &mut CountedChannel<'_>,
        writes: WriteMethod,
        number: u32,
        body_bytes: u64,
    ) -> Result<CommandTruth, LabError> {
        let reporter = channel.reporter;
        let _task = reporter.task(&reporter.command);
        let header = CommandHeader {
            number,
            body_bytes: body_bytes as u32,
        };
        let header = header.to_bytes();
        let body = vec![0x62; body_bytes as usize];
        let start_ns = now_ns();
        match writes {
            WriteMethod::Two => {
                channel.send(&header)?;
                channel.send(&body)?;
            }
            WriteMethod::Gathered => channel.send_parts([&header, &body])?,
            WriteMethod::Joined => channel.send(&[&header[..], &body[..]].concat())?,
        }
        let sent_ns = now_ns();
        let mut answer = [0; ANSWER_BYTES];
        if !channel.receive(&mut answer)? || answer[..HEADER_BYTES] != header {
            return Err(channel.peer.end_error(0, ANSWER_BYTES));
        }
        Ok(CommandTruth {
            body_bytes,
            start_ns,
            sent_ns,
            answered_ns: now_ns(),
        })
    }
}
