//! CPU time of watching sockets as the agent does, by number of sockets and interval: of a walk that polls their
//! statistics, idle ones and ones that talk, and, apart, of reading the table of sockets with their owners (all open
//! files).
//!
//! Opens loopback connections in a network namespace of its own (needs root) and watches only there; the files of the
//! whole host are read. Between two polls it sleeps, so that caches are as cold as they are for an agent.
//! Prints a line for each: sockets, interval in ms, and CPU µs of one poll of idle sockets, of one reading of the table,
//! of one poll when each socket had an exchange since the last, and of one soon after, when none had.
//!
//! `cargo run --release -p whylat-probe --example watch_speed [SOCKETS…]`

mod holders;

use std::process::Command;
use std::time::Duration;

use holders::{Holder, Result, hold, holders, run};
use nix::sched::{CloneFlags, unshare};
use nix::time::ClockId;
use whylat_probe::clock::read_ns;
use whylat_probe::hooks::{Detail, Drainer, Hooks, Storage, WalkOf};
use whylat_probe::netns::Netns;

const DEFAULT_SOCKETS: [u64; 5] = [10, 100, 1_000, 5_000, 10_000];
/// SNAP's (figure 8), and how many polls of each make a figure.
const INTERVALS_MS: [(u64, u32); 5] = [(50, 20), (100, 10), (500, 4), (1_000, 3), (10_000, 1)];
/// Polls of sockets that talk, at each interval up to a second.
const TALKING_POLLS: u32 = 3;
/// Until sockets count as idle.
const IDLE_AFTER: Duration = Duration::from_secs(5);

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
    println!("sockets interval_ms poll_us table_us talking_us recent_us");
    sizes.into_iter().try_for_each(measure)
}

/// Measures polls of watched sockets while they exchange data, and prints one line.
fn measure(sockets: u64) -> Result<()> {
    let mut storage = Storage::uninit();
    let own = Netns::current()?.inode();
    let hooks = Hooks::load_to_watch(&mut storage, Some(own), Detail::Calls)?;
    hooks.attach()?;
    let drainer = hooks.drainer()?;
    let mut holders = holders(sockets)?;
    for holder in &mut holders {
        holder.exchange()?;
    }
    let poll = || -> Result<f64> {
        let start_us = thread_cpu_us();
        walk(&hooks, &drainer)?;
        Ok(thread_cpu_us() - start_us)
    };
    for (interval_ms, polls) in INTERVALS_MS {
        let interval = Duration::from_millis(interval_ms);
        let (mut talking_us, mut recent_us) = (0.0, 0.0);
        let talking_polls = polls.min(TALKING_POLLS);
        for _ in 0..talking_polls {
            for holder in &mut holders {
                holder.exchange()?;
            }
            std::thread::sleep(interval);
            talking_us += poll()?;
            std::thread::sleep(interval);
            recent_us += poll()?;
        }
        become_idle(&poll)?;
        let (mut poll_us, mut table_us) = (0.0, 0.0);
        for _ in 0..polls {
            std::thread::sleep(interval);
            poll_us += poll()?;
            let start_us = thread_cpu_us();
            hooks.walk()?;
            table_us += thread_cpu_us() - start_us;
        }
        let [poll_us, table_us] = [poll_us, table_us].map(|us| us / f64::from(polls));
        let [talking_us, recent_us] =
            [talking_us, recent_us].map(|us| us / f64::from(talking_polls));
        println!(
            "{sockets} {interval_ms} {poll_us:.1} {table_us:.1} {talking_us:.1} {recent_us:.1}"
        );
    }
    holders.into_iter().try_for_each(Holder::end)
}

/// Polls until no socket reports earlier traffic any more.
fn become_idle(poll: &impl Fn() -> Result<f64>) -> Result<()> {
    const POLLS: u32 = 10;
    for _ in 0..POLLS {
        std::thread::sleep(IDLE_AFTER / POLLS);
        poll()?;
    }
    // those that have just come to rest
    poll().map(drop)
}

/// Walks the sockets that are due, and drops the rows.
fn walk(hooks: &Hooks<'_>, drainer: &Drainer<'_>) -> Result<()> {
    let mut more = hooks.walk_watched(WalkOf::Due, 0, false)?;
    loop {
        while drainer.drain(usize::MAX, || ()) > 0 {}
        drainer.take();
        if !more {
            return Ok(());
        }
        more = hooks.read_more_sockets()?;
    }
}

/// Returns the CPU time of this thread, in microseconds.
fn thread_cpu_us() -> f64 {
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0) as f64 / 1_000.0
}
