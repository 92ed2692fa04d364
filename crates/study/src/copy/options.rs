//! Options of `whylat lab copy ask`.

use std::net::SocketAddr;

use clap::Args;

use super::matrix::{RunConfig, SendVariant};

/// Options of `ask`.
#[derive(Debug, Clone, Args)]
pub(super) struct ClientOptions {
    /// Server to connect to.
    #[arg(long)]
    pub(super) connect: SocketAddr,
    /// How messages are sent.
    #[arg(long, value_enum, default_value = "A1")]
    pub(super) variant: SendVariant,
    /// Bytes of a message.
    #[arg(long, default_value_t = 65_536)]
    pub(super) size: usize,
    /// Clients, each with a thread and a connection.
    #[arg(long, default_value_t = 1)]
    pub(super) threads: usize,
    #[command(flatten)]
    pub(super) how: RunOptions,
}

/// Options that all configurations of a study share.
#[derive(Debug, Clone, Args)]
pub(super) struct RunOptions {
    /// Seconds that are measured.
    #[arg(long, default_value_t = 5.0)]
    pub(super) seconds: f64,
    /// Seconds before, in which every byte of every message is checked.
    #[arg(long, default_value_t = 0.5)]
    pub(super) warm_up: f64,
    /// Requests of a client that are under way at a time; 1 is request and response, as in the published study.
    #[arg(long, default_value_t = 1)]
    pub(super) window: usize,
    /// While it is measured, check every byte of every nth message; of the others number, order and length.
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub(super) check_every: u64,
    /// Threads of the server and of the clients on CPUs of their own.
    #[arg(long)]
    pub(super) pin: bool,
}

impl RunOptions {
    /// Returns the number of messages that a server sends in turn: as many as are under way, and as many again that may
    /// not be over; the same for all variants, so that all work on as much memory.
    pub(super) fn slots(&self) -> usize {
        2 * self.window.max(2)
    }

    /// Returns these options as command-line arguments.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for (name, value) in [
            ("--seconds", self.seconds.to_string()),
            ("--warm-up", self.warm_up.to_string()),
            ("--window", self.window.to_string()),
            ("--check-every", self.check_every.to_string()),
        ] {
            words.extend([name.to_owned(), value]);
        }
        words.extend(self.pin.then(|| "--pin".to_owned()));
        words
    }
}

impl ClientOptions {
    /// Makes options to check, without a server to run them.
    pub(super) fn new(config: RunConfig, how: &RunOptions) -> Self {
        Self {
            connect: SocketAddr::from(([0, 0, 0, 0], 0)),
            variant: config.variant,
            size: config.size,
            threads: config.threads,
            how: how.clone(),
        }
    }
}
