//! CPU time of polling, per socket and poll, beside `ss -tinO` over the same sockets.
//!
//! Opens loopback connections in a network namespace of its own (needs root), in child
//! processes because one process may not hold enough descriptors. Then alternates, several
//! rounds: walks over recorded sockets on which nothing happened; a walk after each had some
//! traffic, so that each becomes a row; polls without BPF, again with nothing new; and
//! `ss -tinO`. Prints medians and extremes.
//!
//! `cargo run --release -p whylat-probe --example poll_speed [SOCKETS…]`

mod holders;

use std::process::Command;

use holders::{Holder, Result, hold, holders, run};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use table::Columns;
use whylat_probe::clock::read_ns;
use whylat_probe::hooks::{Detail, Drainer, Hooks, Selection, Storage};
use whylat_probe::tcp_stats::{Extensions, Poller, SampleFilter, Scope};

const DEFAULT_SOCKETS: [u64; 3] = [1_000, 10_000, 50_000];
const ROUNDS: usize = 9;
/// Sockets polled in one measurement at least, so that the clock's own cost does not show.
const VISITS: u64 = 50_000;

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

/// Returns the CPU time of this thread, in nanoseconds.
fn thread_cpu_ns() -> i64 {
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// Holds what is polled and measured.
struct Subject<'a> {
    hooks: &'a Hooks<'a>,
    drainer: Drainer<'a>,
    poller: Poller,
    filter: SampleFilter,
    holders: Vec<Holder>,
    sockets: u64,
}

impl Subject<'_> {
    /// Returns how many polls visit enough sockets to measure.
    fn polls(&self) -> u64 {
        VISITS.div_ceil(self.sockets).max(2)
    }

    /// Returns the CPU time of a walk for each socket if nothing changes, µs.
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

    /// Walks all sockets once with the BPF iterator; returns the number of rows.
    fn walk(&self) -> Result<u64> {
        let mut rows = 0;
        let mut more = self.hooks.read_sockets()?;
        loop {
            while self.drainer.drain(usize::MAX, || ()) > 0 {}
            rows += self.drainer.take().rows.tcp_samples.len() as u64;
            if !more {
                return Ok(rows);
            }
            more = self.hooks.read_more_sockets()?;
        }
    }

    /// Measures the CPU time of a poll for each socket, µs, when every socket has a new sample.
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

    /// Returns the CPU time of a poll without BPF for each socket if nothing changes, µs.
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

    /// Returns microseconds of CPU for each socket and poll.
    fn per_socket_us(&self, cpu_ns: i64, polls: u64) -> f64 {
        cpu_ns as f64 / 1000.0 / (polls * self.sockets) as f64
    }

    /// Runs `ss` once; returns its CPU time for each socket, in microseconds.
    fn ss(&self) -> Result<f64> {
        let before_us = children_cpu_us()?;
        run(Command::new("ss").arg("-tinO"))?;
        Ok((children_cpu_us()? - before_us) as f64 / self.sockets as f64)
    }
}

/// Returns the CPU time of all ended children, in microseconds.
fn children_cpu_us() -> Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok(usage.user_time().num_microseconds() + usage.system_time().num_microseconds())
}

/// Measures polls of this many sockets in four ways, and prints one line.
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
