//! The server: a thread for each client, which sends a message for each request, as the client's hello says.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::Args;
use serde_json::json;

use super::counters::ThreadCounters;
use super::message::{FIELDS, is_size};
use super::pin;
use super::protocol::{
    self, MAGIC, REQUEST_BYTES, RequestPhase, ServerAccount, StreamReply, StreamRequest,
};
use super::variant::{self, Sender};
use lab::LabError;

/// Most memory that a client may ask for.
const MOST_BYTES: usize = 1 << 30;

/// Counts the clients that the server has at a time.
#[derive(Debug, Default)]
struct ClientCounter {
    active: AtomicUsize,
    /// The most since there was none.
    peak: AtomicUsize,
}

impl ClientCounter {
    /// Counts a client that starts, and keeps the most at once.
    fn begin(&self) {
        let active = self.active.fetch_add(1, Ordering::Relaxed) + 1;
        if active == 1 {
            self.peak.store(1, Ordering::Relaxed);
        } else {
            self.peak.fetch_max(active, Ordering::Relaxed);
        }
    }

    /// Counts a client that ends.
    fn end(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub(super) struct ServerOptions {
    /// Address to listen at.
    #[arg(long, default_value = "0.0.0.0")]
    listen: IpAddr,
    /// Port to listen at; 0: any that is free.
    #[arg(long, default_value_t = protocol::PORT)]
    port: u16,
    /// End after so many clients; 0: never.
    #[arg(long, default_value_t = 0)]
    clients: usize,
}

impl ServerOptions {
    /// Prints `{"ready": PORT, "pid": PID}`, then serves.
    pub(super) fn run(&self) -> Result<ExitCode, LabError> {
        let address = SocketAddr::new(self.listen, self.port);
        let hint = "choose another port with --port, or end who has it: ss -ltnp";
        let failed = |why| LabError::os("listen at", address.to_string(), why, hint);
        let listener = TcpListener::bind(address).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        lab::output::print_json(&json!({ "ready": port, "pid": std::process::id() }))?;
        let counter = &ClientCounter::default();
        let all_well = thread::scope(|scope| {
            let mut threads = Vec::new();
            for accepted in listener.incoming() {
                let stream = accepted.map_err(failed)?;
                let serve = move || {
                    let served = serve(&stream, counter);
                    served.inspect_err(|why| eprintln!("error: a client's connection ended: {why}"))
                };
                let thread = thread::Builder::new().name("serve".to_owned());
                threads.push(thread.spawn_scoped(scope, serve).map_err(|why| {
                    LabError::os("start", "a thread", why, "ask for fewer clients")
                })?);
                if threads.len() == self.clients {
                    break;
                }
                // those of a server that never ends are only read by themselves
                if self.clients == 0 {
                    threads.clear();
                }
            }
            let ended = threads.into_iter().map(|thread| thread.join());
            Ok(ended.fold(true, |well, ended| well & matches!(ended, Ok(Ok(())))))
        })?;
        Ok(if all_well {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Serves a client until it closes.
fn serve(stream: &TcpStream, counter: &ClientCounter) -> io::Result<()> {
    let hello: StreamRequest = protocol::read_frame(stream)?;
    let skip = |why: String| {
        let skipped = Some(why);
        protocol::write_frame(stream, &StreamReply { skipped })
    };
    if hello.magic != MAGIC {
        return skip(format!("this server speaks {MAGIC}, not {}", hello.magic));
    }
    let is_too_much = hello.size.saturating_mul(hello.slots) > MOST_BYTES;
    if !is_size(hello.size) || hello.slots == 0 || is_too_much {
        return skip(format!(
            "{} messages of {} bytes: sizes are multiples of {}, and 1 GiB is the most",
            hello.slots,
            hello.size,
            8 * FIELDS
        ));
    }
    if let Some(place) = hello.pin {
        pin::pin_server(place).map_err(io::Error::other)?;
    }
    stream.set_nodelay(hello.variant.nodelay())?;
    let mut sender = match variant::sender(stream.try_clone()?, &hello)? {
        Ok(sender) => sender,
        Err(why) => return skip(why),
    };
    counter.begin();
    let served = protocol::write_frame(stream, &StreamReply { skipped: None })
        .and_then(|()| answer_requests(stream, sender.as_mut(), &hello, counter));
    counter.end();
    protocol::write_frame(stream, &served?)
}

/// Answers requests until the client sends no more.
fn answer_requests(
    stream: &TcpStream,
    sender: &mut dyn Sender,
    hello: &StreamRequest,
    counter: &ClientCounter,
) -> io::Result<ServerAccount> {
    let mut counters = ThreadCounters::open();
    let mut requests = RequestQueue::new(stream);
    let (mut messages, mut measured, mut clients) = (0, 0, 0);
    let mut before = None;
    loop {
        let (number, phase) = requests.next()?;
        if phase == RequestPhase::End {
            break;
        }
        if number != messages {
            return Err(io::Error::other("a request came out of turn"));
        }
        if phase == RequestPhase::Measured && before.is_none() {
            // all have connected before one asks: a slow thread may begin when another one has ended
            clients = counter.peak.load(Ordering::Relaxed);
            before = Some(counters.read());
        }
        sender.send(number)?;
        messages += 1;
        measured += u64::from(before.is_some());
    }
    sender.finish()?;
    let after = counters.read();
    let counts = before.map(|before| after.since(&before));
    Ok(ServerAccount {
        active: clients,
        messages,
        bytes: messages * hello.size as u64,
        measured,
        tally: sender.tally(),
        counts: counts.unwrap_or_default(),
    })
}

/// Requests as they come in.
struct RequestQueue<'a> {
    stream: &'a TcpStream,
    bytes: [u8; 64 * REQUEST_BYTES],
    /// Of the bytes, those that were not read yet.
    from: usize,
    to: usize,
}

impl<'a> RequestQueue<'a> {
    /// Begins to read requests of a connection.
    fn new(stream: &'a TcpStream) -> Self {
        Self {
            stream,
            bytes: [0; 64 * REQUEST_BYTES],
            from: 0,
            to: 0,
        }
    }

    /// Returns number and phase of the next request.
    fn next(&mut self) -> io::Result<(u64, RequestPhase)> {
        loop {
            if let Some(bytes) = self.bytes[self.from..self.to].first_chunk() {
                self.from += REQUEST_BYTES;
                return protocol::parse(*bytes);
            }
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            let read = self.stream.read(&mut self.bytes[self.to..])?;
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "it closed before its end",
                ));
            }
            self.to += read;
        }
    }
}
