//! CPU time of polling, per socket and poll, beside `ss -tinO` over the same sockets.
//!
//! Opens loopback connections in a network namespace of its own (needs root), in child
//! processes because one process may not hold enough descriptors. Then alternates, several
//! rounds: walks over recorded sockets on which nothing happened; a walk after each had some
//! traffic, so that each becomes a row; polls without BPF, again with nothing new; and
//! `ss -tinO`. Prints medians and extremes.
//!
//! `cargo run --release -p whylat-probe --example poll_speed [SOCKETS…]`

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use table::Columns;
use whylat_probe::clock::read_ns;
use whylat_probe::hooks::{Detail, Drainer, Hooks, Selection, Storage};
use whylat_probe::tcp_stats::{Extensions, Poller, SampleFilter, Scope};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const DEFAULT_SOCKETS: [u64; 3] = [1_000, 10_000, 50_000];
const ROUNDS: usize = 9;
const DRAIN_MOST: usize = 8192;
/// Sockets polled in one measurement at least, so that the clock's own cost does not show.
const VISITS: u64 = 50_000;
/// Connections a child holds: two descriptors each, below the usual hard limit of 20,000.
const PAIRS_PER_CHILD: u64 = 9_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, pairs, host] = arguments.as_slice()
        && mode == "hold"
    {
        return hold(pairs.parse()?, host.parse()?);
    }
    let mut sizes = Vec::new();
    for argument in &arguments {
        sizes.push(argument.parse()?);
    }
    if sizes.is_empty() {
        sizes.extend(DEFAULT_SOCKETS);
    }
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|errno| format!("cannot make a network namespace: {errno}\nhint: run as root"))?;
    run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    println!("CPU µs per socket and poll: median (least – most) of {ROUNDS} alternating rounds");
    println!(
        "{:>8}  {:>22}  {:>22}  {:>22}  {:>22}  {:>9}",
        "sockets", "idle", "every sample a row", "idle, without BPF", "ss -tinO", "ss / idle"
    );
    for sockets in sizes {
        measure(sockets)?;
    }
    Ok(())
}

/// Child: holds `pairs` connections to 127.0.0.`host` until its input ends.
fn hold(pairs: u64, host: u8) -> Result<()> {
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

fn run(command: &mut Command) -> Result<()> {
    let status = command.stdout(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(())
}

/// A child that holds connections.
struct Holder {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Holder {
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

    fn expect(&mut self, answer: &str) -> Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim_end() == answer {
            true => Ok(()),
            false => Err(format!("a child said {line:?} instead of {answer}").into()),
        }
    }

    /// A byte on every connection.
    fn exchange(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().ok_or("the child has no input")?;
        input.write_all(b".")?;
        self.expect("done")
    }

    fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait()?;
        Ok(())
    }
}

/// Children that hold `sockets` connected sockets, after all are connected.
fn holders(sockets: u64) -> Result<Vec<Holder>> {
    let mut left = sockets / 2;
    let mut holders = Vec::new();
    while left > 0 {
        let pairs = left.min(PAIRS_PER_CHILD);
        holders.push(Holder::start(pairs, holders.len() + 1)?);
        left -= pairs;
    }
    Ok(holders)
}

fn thread_cpu_ns() -> i64 {
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// What is polled and measured.
struct Subject<'a> {
    hooks: &'a Hooks<'a>,
    drainer: Drainer<'a>,
    poller: Poller,
    filter: SampleFilter,
    holders: Vec<Holder>,
    sockets: u64,
}

impl Subject<'_> {
    fn polls(&self) -> u64 {
        VISITS.div_ceil(self.sockets).max(2)
    }

    /// CPU µs per socket and walk when nothing changes.
    fn idle(&mut self) -> Result<f64> {
        let polls = self.polls();
        let start_ns = thread_cpu_ns();
        for _ in 0..polls {
            let rows = self.walk()?;
            if rows > 0 {
                return Err(format!("{rows} idle sockets gave a row").into());
            }
        }
        Ok(self.per_socket_us(thread_cpu_ns() - start_ns, polls))
    }

    fn walk(&self) -> Result<u64> {
        let mut rows = 0;
        let mut more = self.hooks.read_sockets()?;
        loop {
            while self.drainer.drain(DRAIN_MOST, || ()) > 0 {}
            rows += self.drainer.take().samples.len() as u64;
            if !more {
                return Ok(rows);
            }
            more = self.hooks.read_more_sockets()?;
        }
    }

    /// The same when every socket has a new sample.
    fn all_rows(&mut self) -> Result<f64> {
        for holder in &mut self.holders {
            holder.exchange()?;
        }
        let start_ns = thread_cpu_ns();
        let rows = self.walk()?;
        let cpu_ns = thread_cpu_ns() - start_ns;
        if rows != self.sockets {
            return Err(format!("{rows} rows of {} sockets", self.sockets).into());
        }
        Ok(self.per_socket_us(cpu_ns, 1))
    }

    /// When nothing changes, without BPF.
    fn unaided(&mut self) -> f64 {
        let polls = self.polls();
        let start_ns = thread_cpu_ns();
        for _ in 0..polls {
            let filter = &mut self.filter;
            self.poller.poll(
                Extensions {
                    memory: true,
                    congestion: true,
                },
                |view| {
                    filter.visit(view, |_| true);
                },
            );
            filter.end_poll();
        }
        self.per_socket_us(thread_cpu_ns() - start_ns, polls)
    }

    fn per_socket_us(&self, cpu_ns: i64, polls: u64) -> f64 {
        cpu_ns as f64 / 1000.0 / (polls * self.sockets) as f64
    }

    fn ss(&self) -> Result<f64> {
        let before_us = children_cpu_us()?;
        run(Command::new("ss").arg("-tinO"))?;
        Ok((children_cpu_us()? - before_us) as f64 / self.sockets as f64)
    }
}

fn children_cpu_us() -> Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok(usage.user_time().num_microseconds() + usage.system_time().num_microseconds())
}

fn measure(sockets: u64) -> Result<()> {
    let mut storage = Storage::uninit();
    let hooks = Hooks::load(&mut storage, &Selection::default(), Detail::Stats)?;
    hooks.record_children_of(std::process::id())?;
    hooks.attach()?;
    let mut subject = Subject {
        hooks: &hooks,
        drainer: hooks.drainer()?,
        poller: Poller::open(Scope::Own)?.0,
        filter: SampleFilter::default(),
        holders: holders(sockets)?,
        sockets: sockets / 2 * 2,
    };
    subject.all_rows()?;
    subject.unaided();
    let mut figures = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        figures[0].push(subject.idle()?);
        figures[1].push(subject.all_rows()?);
        // what the exchange changed is a row once, and not measured
        subject.unaided();
        figures[2].push(subject.unaided());
        figures[3].push(subject.ss()?);
    }
    print_line(sockets, &mut figures);
    subject.holders.into_iter().try_for_each(Holder::end)
}

fn print_line(sockets: u64, figures: &mut [Vec<f64>; 4]) {
    let mut line = format!("{sockets:>8}");
    let mut medians = Vec::new();
    for values in figures {
        values.sort_by(f64::total_cmp);
        let (median, least, most) = (values[ROUNDS / 2], values[0], values[ROUNDS - 1]);
        line += &format!("  {:>22}", format!("{median:.3} ({least:.3} – {most:.3})"));
        medians.push(median);
    }
    println!("{line}  {:>9.1}", medians[3] / medians[0]);
}
