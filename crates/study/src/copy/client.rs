//! The clients: each a thread with a connection, which asks for messages, checks them, and times them.
//!
//! In: what to ask for, and how long. Out: one JSON object with the figures of all clients and of the server's
//! threads, after their counts were found to agree.

use std::io;
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use super::counters::sum;
use super::figures::RunFigures;
use super::message::is_size;
use super::options::{ClientOptions, RunOptions};
use super::pin;
use super::protocol::{self, MAGIC, SendTally, StreamReply, StreamRequest};
use super::receive::ReceivingClient;
use super::stats::Histogram;
use lab::LabError;
use lab::workload::threads::{join_threads, start};

/// A server that sends nothing for so long has gone.
const LONGEST: Duration = Duration::from_secs(10);
const HINT_SERVER: &str = "see what the server printed; whylat lab copy serve starts one";

/// Outcome of a client's run: its figures, or why it was skipped.
pub(super) enum ClientOutcome {
    Figures(RunFigures),
    /// Why the server cannot.
    Skipped(String),
}

impl ClientOptions {
    /// Runs all clients, and returns their sums, or why none could run.
    pub(super) fn run(&self) -> Result<ClientOutcome, LabError> {
        self.check()?;
        let mut streams = Vec::new();
        for place in 0..self.threads {
            let stream = self.connect(place);
            let stream =
                stream.map_err(|why| LabError::os("connect to", self.peer(), why, HINT_SERVER))?;
            match stream {
                Ok(stream) => streams.push(stream),
                Err(why) => return Ok(ClientOutcome::Skipped(why)),
            }
        }
        let together = Barrier::new(self.threads);
        let ended = thread::scope(|scope| {
            let client = |(place, stream): (usize, &TcpStream)| {
                let stream = stream.try_clone();
                let together = &together;
                start(scope, move || self.client(place, stream, together))
            };
            let threads = streams.iter().enumerate().map(client);
            join_threads(threads.collect::<Result<_, _>>()?)
        })?;
        self.compare(&ended)?;
        Ok(ClientOutcome::Figures(self.sum_figures(&ended)))
    }

    /// Refuses options that contradict each other.
    pub(super) fn check(&self) -> Result<(), LabError> {
        let refused = |option, value: String, why, hint| {
            Err(LabError::Option {
                option,
                value,
                why,
                hint,
            })
        };
        let RunOptions {
            seconds,
            warm_up,
            window,
            check_every,
            ..
        } = self.how;
        if !is_size(self.size) {
            let why = "a message has eight fields of whole 8-byte words";
            return refused("--size", self.size.to_string(), why, "use a multiple of 64");
        }
        if self.threads == 0 || window == 0 || check_every == 0 {
            let value = format!("{}, {window}, {check_every}", self.threads);
            let option = "--threads, --window or --check-every";
            return refused(option, value, "nothing would happen", "use 1 or more");
        }
        let is_time = seconds > 0.0 && seconds <= 86_400.0 && (0.0..=3_600.0).contains(&warm_up);
        if !is_time {
            let value = format!("{seconds}, {warm_up}");
            let why = "it is no time that anybody would wait";
            return refused("--seconds or --warm-up", value, why, "use 5 and 0.5");
        }
        Ok(())
    }

    /// Returns the server's address as text.
    fn peer(&self) -> String {
        self.connect.to_string()
    }

    /// Opens a connection to a server that is ready to send; the inner error says why it is not.
    fn connect(&self, place: usize) -> io::Result<Result<TcpStream, String>> {
        let stream = TcpStream::connect(self.connect)?;
        stream.set_read_timeout(Some(LONGEST))?;
        stream.set_nodelay(self.variant.nodelay())?;
        let hello = StreamRequest {
            magic: MAGIC.to_owned(),
            variant: self.variant,
            size: self.size,
            slots: self.how.slots(),
            pin: self.how.pin.then_some(place),
        };
        protocol::write_frame(&stream, &hello)?;
        let StreamReply { skipped } = protocol::read_frame(&stream)?;
        Ok(skipped.map_or(Ok(stream), Err))
    }

    /// Makes the client of one connection; waits for the others.
    fn client(
        &self,
        place: usize,
        stream: io::Result<TcpStream>,
        together: &Barrier,
    ) -> Result<ReceivingClient, LabError> {
        let failed = |why| LabError::os("receive from", self.peer(), why, HINT_SERVER);
        let pinned = if self.how.pin {
            pin::pin_client(place)
        } else {
            Ok(())
        };
        let client = stream.map(|stream| ReceivingClient::new(self, stream));
        // all arrive here, whatever went wrong
        together.wait();
        pinned?;
        let mut client = client.map_err(failed)?;
        client.exchange(&self.how).map_err(failed)?;
        Ok(client)
    }

    /// Demands that both ends counted the same, with all clients at the same time.
    fn compare(&self, clients: &[ReceivingClient]) -> Result<(), LabError> {
        for client in clients {
            let Some(served) = &client.served else {
                continue;
            };
            let own = (client.received, client.measured);
            let theirs = (served.messages, served.measured);
            if own != theirs || served.bytes != client.received * self.size as u64 {
                let why = format!("received {own:?} messages, the server sent {theirs:?}");
                return Err(self.wrong(why));
            }
            if served.active != self.threads {
                let why = format!(
                    "the server had {} clients at a time instead of {}",
                    served.active, self.threads
                );
                return Err(self.wrong(why));
            }
            let SendTally {
                zerocopy_sends,
                completed,
                ..
            } = served.tally;
            if zerocopy_sends != completed {
                let why = format!("{zerocopy_sends} zero-copy sends, {completed} completions");
                return Err(self.wrong(why));
            }
        }
        Ok(())
    }

    /// Makes the error of a wrong message.
    fn wrong(&self, why: String) -> LabError {
        LabError::os(
            "account for",
            format!("all messages of {}", self.peer()),
            io::Error::other(why),
            "report this, with the command; nobody else may use that server meanwhile",
        )
    }

    /// Sums the figures of all clients.
    fn sum_figures(&self, clients: &[ReceivingClient]) -> RunFigures {
        let mut latency = Histogram::default();
        let mut tally = SendTally::default();
        let (mut messages, mut gbps, mut seconds) = (0, 0.0, 0.0_f64);
        for client in clients {
            latency.add(&client.latency);
            messages += client.measured;
            let own_s = client.measured_ns as f64 / 1e9;
            gbps += (client.measured * self.size as u64 * 8) as f64 / own_s / 1e9;
            seconds = seconds.max(own_s);
            if let Some(served) = &client.served {
                tally.add(&served.tally);
            }
        }
        let served = clients.iter().filter_map(|client| client.served.as_ref());
        let missing = clients.first().map(|client| client.missing.clone());
        RunFigures::new(
            self.size,
            messages,
            seconds,
            gbps,
            &latency,
            &tally,
            sum(served.map(|served| served.counts.clone())),
            sum(clients.iter().map(|client| client.counts.clone())),
            missing.unwrap_or_default(),
        )
    }
}
