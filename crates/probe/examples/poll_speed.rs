//! CPU time of polling, per socket and poll, beside `ss -tinO` over the same sockets.
//!
//! Opens loopback connections in a network namespace of its own (needs root), in child
//! processes because one process may not hold enough descriptors. Then alternates, several
//! rounds: polls of idle sockets (all filtered), polls in which no socket is chosen, polls whose
//! every sample becomes a row, and `ss -tinO`. Prints medians and extremes.
//!
//! `cargo run --release -p whylat-probe --example poll_speed [SOCKETS…]`

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use table::Columns;
use table::tables::TcpSamples;
use whylat_probe::clock::read_ns;
use whylat_probe::tcp_stats::{
    CookieSet, Extensions, Offer, Poller, SampleFilter, Scope, Selection,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const DEFAULT_SOCKETS: [u64; 3] = [1_000, 10_000, 50_000];
const ROUNDS: usize = 9;
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
        "sockets",
        "idle, all selected",
        "none chosen (by port)",
        "every sample a row",
        "ss -tinO",
        "ss / idle"
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
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.stdout(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(())
}

/// Children that hold `sockets` connected sockets, after all are connected.
fn holders(sockets: u64) -> Result<Vec<Child>> {
    let mut left = sockets / 2;
    let mut children = Vec::new();
    while left > 0 {
        let pairs = left.min(PAIRS_PER_CHILD);
        let host = children.len() + 1;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["hold", &pairs.to_string(), &host.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("the child has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line != "ready\n" {
            return Err("a child could not open its connections".into());
        }
        left -= pairs;
        children.push(child);
    }
    Ok(children)
}

fn thread_cpu_ns() -> i64 {
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// What is polled and measured.
struct Subject {
    poller: Poller,
    sockets: u64,
}

impl Subject {
    fn polls(&self) -> u64 {
        VISITS.div_ceil(self.sockets).max(2)
    }

    /// CPU µs per socket and poll when nothing changes.
    fn idle(&mut self, selection: &Selection, filter: &mut SampleFilter) -> f64 {
        let polls = self.polls();
        let mut visited = 0;
        let start_ns = thread_cpu_ns();
        for _ in 0..polls {
            self.poller.poll(
                Extensions {
                    memory: true,
                    congestion: false,
                },
                |view| {
                    visited += 1;
                    filter.visit(view, |view| selection.matches(view));
                },
            );
            filter.end_poll();
        }
        (thread_cpu_ns() - start_ns) as f64 / 1000.0 / visited as f64
    }

    /// The same when every sample is new: a filter without memory, rows kept in columns.
    fn all_rows(&mut self) -> f64 {
        let polls = self.polls();
        let (mut visited, mut cpu_ns) = (0, 0);
        for _ in 0..polls {
            let mut filter = SampleFilter::default();
            let mut columns = TcpSamples::default();
            let start_ns = thread_cpu_ns();
            self.poller.poll(
                Extensions {
                    memory: true,
                    congestion: false,
                },
                |view| {
                    visited += 1;
                    if let Offer::Row(row) = filter.visit(view, |_| true) {
                        columns.push(row);
                    }
                },
            );
            cpu_ns += thread_cpu_ns() - start_ns;
        }
        cpu_ns as f64 / 1000.0 / visited as f64
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
    let mut children = holders(sockets)?;
    let (mut poller, _) = Poller::open(Scope::Own)?;
    let mut cookies = CookieSet::default();
    let report = poller.poll(Extensions::default(), |view| {
        cookies.insert(view.cookie);
    });
    if !report.failures.is_empty() || (cookies.len() as u64) < sockets / 2 * 2 {
        return Err(format!("{} sockets seen: {:?}", cookies.len(), report.failures).into());
    }
    let mut subject = Subject { poller, sockets };
    let everything = Selection::everything();
    let mut other_port = Selection::default();
    other_port.add_ports([1]);
    let (mut filter, mut empty) = (SampleFilter::default(), SampleFilter::default());
    subject.idle(&everything, &mut filter);
    let mut figures = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        figures[0].push(subject.idle(&everything, &mut filter));
        figures[1].push(subject.idle(&other_port, &mut empty));
        figures[2].push(subject.all_rows());
        figures[3].push(subject.ss()?);
    }
    print_line(sockets, &mut figures);
    for child in &mut children {
        drop(child.stdin.take());
        child.wait()?;
    }
    Ok(())
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
