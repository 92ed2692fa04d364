//! `batches`: a client that has a server do much at once, now and then, until stdin closes: what other clients ask
//! meanwhile waits.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::context::Context;
use super::cpu::wait_for_end;
use super::threads::name_thread;
use crate::error::LabError;

/// Keys that are stored in redis.
const KEYS: usize = 100_000;
/// Keys that a step of a sweep of redis looks at.
const STEP_KEYS: usize = 100;

/// Options of `batches`.
#[derive(Debug, Args)]
pub(crate) struct Batches {
    /// The server's address.
    #[arg(long)]
    connect: SocketAddr,
    /// The request.
    #[arg(long, value_enum)]
    kind: BatchKind,
    /// memcached: requests that are sent at once.
    #[arg(long, default_value_t = 380)]
    requests: usize,
    /// memcached: values that each asks for.
    #[arg(long, default_value_t = 18)]
    values: usize,
    /// Pause before each batch.
    #[arg(long, default_value_t = 40)]
    pause_ms: u64,
}

/// Kind of a batch of requests.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum BatchKind {
    /// memcached: many requests for many values.
    Values,
    /// redis: which of all keys match, by one command (KEYS).
    Keys,
    /// redis: the same, by one command after the other (SCAN).
    Scan,
}

/// Truth that `batches` prints: the batches that it sent.
#[derive(Debug, Serialize)]
pub(crate) struct BatchesTruth {
    batches: u64,
}

impl Batches {
    /// Sends batches of requests to a server, and returns what it knows.
    pub(crate) fn run(&self, context: &Context) -> Result<BatchesTruth, LabError> {
        let hint = "check that the server runs and listens there";
        let fails = |why| LabError::os("talk to", self.connect.to_string(), why, hint);
        let mut stream = TcpStream::connect(self.connect).map_err(fails)?;
        stream.set_nodelay(true).map_err(fails)?;
        name_thread(c"batches");
        self.store(&mut stream).map_err(fails)?;
        context.ready(self.connect.port())?;
        let ended = thread::spawn(wait_for_end);
        let mut batches = 0;
        while !ended.is_finished() {
            thread::sleep(Duration::from_millis(self.pause_ms));
            self.ask(&mut stream).map_err(fails)?;
            batches += 1;
        }
        Ok(BatchesTruth { batches })
    }

    /// Stores the values that requests ask for.
    fn store(&self, stream: &mut TcpStream) -> io::Result<()> {
        match self.kind {
            BatchKind::Values => {
                stream.write_all(b"set x 0 0 1\r\n1\r\n")?;
                check_answer(stream, b"STORED\r\n")
            }
            BatchKind::Keys | BatchKind::Scan => {
                let command = format!("DEBUG POPULATE {KEYS} many\r\n");
                stream.write_all(command.as_bytes())?;
                check_answer(stream, b"+OK\r\n")
            }
        }
    }

    /// Sends one batch, and reads all answers.
    fn ask(&self, stream: &mut TcpStream) -> io::Result<()> {
        match self.kind {
            BatchKind::Values => self.ask_for_values(stream),
            BatchKind::Keys => {
                stream.write_all(b"KEYS none*\r\n")?;
                check_answer(stream, b"*0\r\n")
            }
            BatchKind::Scan => scan_keys(stream),
        }
    }

    /// Sends requests that each ask for many values.
    fn ask_for_values(&self, stream: &mut TcpStream) -> io::Result<()> {
        let request = format!("get{}\r\n", " x".repeat(self.values));
        let answered = format!("{}END\r\n", "VALUE x 0 1\r\n1\r\n".repeat(self.values));
        stream.write_all(request.repeat(self.requests).as_bytes())?;
        check_answer(stream, answered.repeat(self.requests).as_bytes())
    }
}

/// A step's answer is the cursor of the next, and no key.
fn scan_keys(stream: &mut TcpStream) -> io::Result<()> {
    let mut cursor = String::from("0");
    loop {
        stream.write_all(format!("SCAN {cursor} MATCH none* COUNT {STEP_KEYS}\r\n").as_bytes())?;
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"\r\n*0\r\n") {
            stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer);
        let next = answer.lines().nth(2).unwrap_or_default();
        if next == "0" {
            return Ok(());
        }
        cursor = next.to_owned();
    }
}

/// Reads an answer, which must be the expected one.
fn check_answer(stream: &mut TcpStream, expected: &[u8]) -> io::Result<()> {
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer)?;
    if answer == expected {
        return Ok(());
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Err(io::Error::other(format!("it answered {answer:?}")))
}
