//! Loopback connections that child processes hold, because one process may not hold enough descriptors. Shared by the
//! examples that measure polling.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::socket::{setsockopt, sockopt};

/// Any error ends a measurement.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Connections a child holds: two descriptors each, below the usual hard limit of 20,000.
const PAIRS_PER_CHILD: u64 = 9_000;

/// Runs as the child: holds `pairs` connections to 127.0.0.`host` until its input ends.
pub fn hold(pairs: u64, host: u8) -> Result<()> {
    let limit = nix::sys::resource::Resource::RLIMIT_NOFILE;
    let (_, hard) = nix::sys::resource::getrlimit(limit)?;
    nix::sys::resource::setrlimit(limit, hard, hard)?;
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), 0))?;
    let address = listener.local_addr()?;
    let mut held = Vec::new();
    for _ in 0..pairs {
        let client = TcpStream::connect(address)?;
        // Closed by reset: no TIME_WAIT stays behind.
        setsockopt(
            &client,
            sockopt::Linger,
            &libc::linger {
                l_onoff: 1,
                l_linger: 0,
            },
        )?;
        held.push((client, listener.accept()?.0));
    }
    // A few bytes on each, so that the statistics are those of a used connection.
    for (client, server) in &mut held {
        client.write_all(b"0123456789")?;
        server.read_exact(&mut [0; 10])?;
    }
    println!("ready");
    // Each further byte on the input asks for one byte on each connection.
    let mut ask = [0];
    while std::io::stdin().read(&mut ask)? > 0 {
        for (client, server) in &mut held {
            client.write_all(&ask)?;
            server.read_exact(&mut ask)?;
        }
        println!("done");
    }
    Ok(())
}

/// Runs a command to its end; an error if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.stdout(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(())
}

/// A child that holds connections.
pub struct Holder {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts a child process that holds this many pairs of sockets, and waits until it is ready.
    fn start(pairs: u64, host: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["hold", &pairs.to_string(), &host.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("the child has no output")?;
        let mut holder = Self {
            child,
            answers: BufReader::new(output),
        };
        holder.expect("ready")?;
        Ok(holder)
    }

    /// Reads the child's next line; an error if it is not this answer.
    fn expect(&mut self, answer: &str) -> Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim_end() == answer {
            true => Ok(()),
            false => Err(format!("a child wrote {line:?} instead of {answer}").into()),
        }
    }

    /// Has the child send a byte on every connection.
    pub fn exchange(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().ok_or("the child has no input")?;
        input.write_all(b".")?;
        self.expect("done")
    }

    /// Ends the child process.
    pub fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait()?;
        Ok(())
    }
}

/// Starts children that hold `sockets` connected sockets in all, and waits for them.
pub fn holders(sockets: u64) -> Result<Vec<Holder>> {
    let mut left = sockets / 2;
    let mut holders = Vec::new();
    while left > 0 {
        let pairs = left.min(PAIRS_PER_CHILD);
        holders.push(Holder::start(pairs, holders.len() + 1)?);
        left -= pairs;
    }
    Ok(holders)
}
