//! One client: asks for messages, receives, checks and times them.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recvmsg};

use super::counters::{CounterValues, ThreadCounters};
use super::message::{ExpectedMessage, FIELDS};
use super::options::{ClientOptions, RunOptions};
use super::protocol::{self, REQUEST_BYTES, RequestPhase, ServerAccount};
use super::stats::Histogram;
use lab::now_ns;

/// One client and what it did.
pub(super) struct ReceivingClient {
    stream: TcpStream,
    place: ReceiveBuffer,
    expected: ExpectedMessage,
    size: usize,
    /// Messages of a file are numbered from 0 again after so many.
    numbers: Option<u64>,
    counters: ThreadCounters,
    pub(super) missing: BTreeMap<String, String>,
    asked: u64,
    pub(super) received: u64,
    pub(super) measured: u64,
    pub(super) measured_ns: u64,
    pub(super) latency: Histogram,
    pub(super) counts: CounterValues,
    pub(super) served: Option<ServerAccount>,
}

/// Memory into which a message is received.
enum ReceiveBuffer {
    Whole(Vec<u8>),
    Fields(Vec<Box<[u8]>>),
}

impl ReceivingClient {
    /// Makes a client of a connection, with buffers of the message's size.
    pub(super) fn new(ask: &ClientOptions, stream: TcpStream) -> Self {
        let field_bytes = ask.size / FIELDS;
        let place = if ask.variant.scatters() {
            let fields = (0..FIELDS).map(|_| vec![0; field_bytes].into_boxed_slice());
            ReceiveBuffer::Fields(fields.collect())
        } else {
            ReceiveBuffer::Whole(vec![0; ask.size])
        };
        let counters = ThreadCounters::open();
        Self {
            stream,
            place,
            expected: ExpectedMessage::new(ask.size),
            size: ask.size,
            numbers: ask.variant.is_file().then(|| ask.how.slots() as u64),
            missing: counters.missing(),
            counters,
            asked: 0,
            received: 0,
            measured: 0,
            measured_ns: 0,
            latency: Histogram::default(),
            counts: CounterValues::new(),
            served: None,
        }
    }

    /// Warms up, measures, and reads the server's figures.
    pub(super) fn exchange(&mut self, how: &RunOptions) -> io::Result<()> {
        let mut sent_ns = vec![0; how.window];
        let begin_ns = now_ns();
        let warm_ns = begin_ns + (how.warm_up * 1e9) as u64;
        let mut now = begin_ns;
        // at least one message, so that the window is as full as it stays
        for _ in 0..how.window {
            self.request(RequestPhase::WarmUp, now, &mut sent_ns)?;
        }
        loop {
            self.receive(1)?;
            now = now_ns();
            if now >= warm_ns {
                break;
            }
            self.request(RequestPhase::WarmUp, now, &mut sent_ns)?;
        }
        // what is under way belongs to the warm-up
        while self.received < self.asked {
            self.receive(1)?;
        }
        let before = self.counters.read();
        let start_ns = now_ns();
        let end_ns = start_ns + (how.seconds * 1e9) as u64;
        now = start_ns;
        for _ in 0..how.window {
            self.request(RequestPhase::Measured, now, &mut sent_ns)?;
        }
        let first = self.received;
        while self.received < self.asked {
            self.receive(how.check_every)?;
            now = now_ns();
            let place = ((self.received - 1) % how.window as u64) as usize;
            self.latency.record(now - sent_ns[place]);
            if now < end_ns {
                self.request(RequestPhase::Measured, now, &mut sent_ns)?;
            }
        }
        self.measured_ns = now - start_ns;
        self.measured = self.received - first;
        self.counts = self.counters.read().since(&before);
        self.stream
            .write_all(&protocol::request(0, RequestPhase::End))?;
        self.served = Some(protocol::read_frame(&self.stream)?);
        Ok(())
    }

    /// Asks for the next message, and notes the time in `sent_ns`.
    fn request(&mut self, phase: RequestPhase, now: u64, sent_ns: &mut [u64]) -> io::Result<()> {
        let place = (self.asked % sent_ns.len() as u64) as usize;
        sent_ns[place] = now;
        let request: [u8; REQUEST_BYTES] = protocol::request(self.asked, phase);
        self.asked += 1;
        self.stream.write_all(&request)
    }

    /// Receives a message and checks it; every byte of every `every`th message.
    fn receive(&mut self, every: u64) -> io::Result<()> {
        let field_bytes = self.size / FIELDS;
        let mut done = 0;
        while done < self.size {
            let read = match &mut self.place {
                ReceiveBuffer::Whole(bytes) => self.stream.read(&mut bytes[done..])?,
                ReceiveBuffer::Fields(fields) => {
                    receive_scattered(&self.stream, fields, done, field_bytes)?
                }
            };
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("it closed after {done} bytes of message {}", self.received),
                ));
            }
            done += read;
        }
        let number = self
            .numbers
            .map_or(self.received, |numbers| self.received % numbers);
        let is_whole = self.received.is_multiple_of(every);
        let checked = match &self.place {
            ReceiveBuffer::Whole(bytes) => {
                self.check(|| bytes.chunks_exact(field_bytes), number, is_whole)
            }
            ReceiveBuffer::Fields(fields) => {
                self.check(|| fields.iter().map(AsRef::as_ref), number, is_whole)
            }
        };
        self.received += 1;
        checked
    }

    /// Compares a received message with the expected one; the whole, or a part.
    fn check<'a, I: Iterator<Item = &'a [u8]>>(
        &self,
        fields: impl Fn() -> I,
        number: u64,
        is_whole: bool,
    ) -> io::Result<()> {
        let this = self.received;
        ExpectedMessage::check_stamps(fields(), number).map_err(|(field, stamp)| {
            io::Error::other(format!(
                "field {field} of message {this} has the number {stamp} instead of {number}: its memory was \
                    overwritten before it was sent"
            ))
        })?;
        if is_whole && !self.expected.is_whole(fields(), number) {
            return Err(io::Error::other(format!(
                "the checksum of message {this} is wrong"
            )));
        }
        Ok(())
    }
}

/// Receives by recvmsg() into the fields of a message, from a byte on.
fn receive_scattered(
    stream: &TcpStream,
    fields: &mut [Box<[u8]>],
    from: usize,
    field_bytes: usize,
) -> io::Result<usize> {
    let (first, within) = (from / field_bytes, from % field_bytes);
    let mut parts = [const { None }; FIELDS];
    let mut skip = within;
    for (part, field) in parts.iter_mut().zip(&mut fields[first..]) {
        *part = Some(IoSliceMut::new(&mut field[std::mem::take(&mut skip)..]));
    }
    let mut parts = parts.map(|part| part.unwrap_or_else(|| IoSliceMut::new(&mut [])));
    loop {
        let parts = &mut parts[..FIELDS - first];
        match recvmsg::<()>(stream.as_raw_fd(), parts, None, MsgFlags::empty()) {
            Err(Errno::EINTR) => {}
            received => return Ok(received?.bytes),
        }
    }
}
