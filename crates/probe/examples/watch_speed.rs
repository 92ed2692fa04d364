//! CPU time of watching idle sockets as the agent does, by number of sockets and interval: of a walk that polls their
//! statistics, and, apart, of reading the table of sockets with their owners (all open files).
//!
//! Opens loopback connections in a network namespace of its own (needs root) and watches only there; the files of the
//! whole host are read. Between two polls it sleeps, so that caches are as cold as they are for an agent.
//! Prints a line for each: sockets, interval in ms, and CPU µs of one poll and of one reading of the table.
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
const DRAIN_MOST: usize = 8192;

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
    println!("sockets interval_ms poll_us table_us");
    sizes.into_iter().try_for_each(measure)
}

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
    walk(&hooks, &drainer)?;
    for (interval_ms, polls) in INTERVALS_MS {
        let (mut poll_us, mut table_us) = (0.0, 0.0);
        for _ in 0..polls {
            std::thread::sleep(Duration::from_millis(interval_ms));
            let start_us = thread_cpu_us();
            walk(&hooks, &drainer)?;
            let polled_us = thread_cpu_us();
            hooks.walk()?;
            poll_us += polled_us - start_us;
            table_us += thread_cpu_us() - polled_us;
        }
        let mean = |us: f64| us / f64::from(polls);
        let (poll_us, table_us) = (mean(poll_us), mean(table_us));
        println!("{sockets} {interval_ms} {poll_us:.1} {table_us:.1}");
    }
    holders.into_iter().try_for_each(Holder::end)
}

fn walk(hooks: &Hooks<'_>, drainer: &Drainer<'_>) -> Result<()> {
    let mut more = hooks.walk_watched(WalkOf::Due, 0, false)?;
    loop {
        while drainer.drain(DRAIN_MOST, || ()) > 0 {}
        drainer.take();
        if !more {
            return Ok(());
        }
        more = hooks.read_more_sockets()?;
    }
}

fn thread_cpu_us() -> f64 {
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0) as f64 / 1_000.0
}
