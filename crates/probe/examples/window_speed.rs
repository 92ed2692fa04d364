//! Time of attaching the hooks of windows, and of detaching them; time that another CPU loses meanwhile; and the gain:
//! CPU time that attached hooks cost between windows.
//!
//! Records this process in windows (needs root). In each round attaches, opens a window, closes it, and closes it
//! again, which detaches nothing. A thread on another CPU reads the clock all the time: where two readings lie more
//! than a microsecond apart, the CPU did something else. Prints medians with quartiles, beside equally long times
//! without a change. Then two threads on one CPU exchange single bytes over a TCP connection, in alternating rounds
//! with hooks attached, and not, and no window open.
//!
//! `cargo run --release --workspace --example window_speed [ROUNDS]`

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::Pid;
use whylat_probe::clock::{monotonic_ns, read_ns};
use whylat_probe::hooks::{Detail, Hooks, Selection, Storage};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const DEFAULT_ROUNDS: usize = 101;
const GAP_NS: u64 = 1_000;
/// Between two changes: as long as windows are.
const PAUSE: Duration = Duration::from_millis(100);
/// Of a round.
const EXCHANGES: u64 = 4_000;
const LONG: Duration = Duration::from_secs(3_600);

/// A time, begin and end.
type Span = (u64, u64);

/// Steps of a round.
const STEPS: [&str; 5] = [
    "attach",
    "open, attached",
    "close, with detaching",
    "close again",
    "nothing",
];

fn main() -> Result<()> {
    let rounds = std::env::args()
        .nth(1)
        .map(|it| it.parse())
        .transpose()?
        .unwrap_or(DEFAULT_ROUNDS);
    let mut storage = Storage::uninit();
    let hooks = Hooks::load_for_windows(&mut storage, &Selection::default(), Detail::Waits)?;
    hooks.attach()?;
    hooks.record_process(std::process::id())?;
    hooks.close_window()?;
    let cpus = sched_getaffinity(Pid::from_raw(0))?;
    let own: Vec<usize> = (0..CpuSet::count())
        .filter(|cpu| cpus.is_set(*cpu).unwrap_or(false))
        .collect();
    let [first, .., last] = own[..] else {
        return Err("one CPU: nobody else loses anything".into());
    };
    let ends = AtomicBool::new(false);
    let (spans, gaps) = std::thread::scope(|scope| {
        let observer = scope.spawn(|| pin(last).map(|()| observe(&ends)).unwrap_or_default());
        let spans = pin(first).and_then(|()| measure(&hooks, rounds));
        ends.store(true, Ordering::Relaxed);
        (spans, observer.join().unwrap_or_default())
    });
    println!(
        "{rounds} rounds, µs: median (quartiles)\n{:>22}  {:>22}  {:>22}",
        "", "took", "other CPU lost"
    );
    for (step, spans) in STEPS.iter().zip(spans?) {
        let took = spans.iter().map(|(begin, end)| end - begin).collect();
        let lost = spans.iter().map(|span| lost_ns(&gaps, *span)).collect();
        println!("{step:>22}  {:>22}  {:>22}", spread(took), spread(lost));
    }
    let mut exchanges = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (all, is_attached) in exchanges.iter_mut().zip([false, true, false]) {
            if is_attached {
                hooks.attach_windows()?;
            }
            all.push(exchange_ns(first)?);
            hooks.close_window()?;
        }
    }
    println!("CPU time of an exchange, µs: median (quartiles), and the least");
    for (step, all) in ["detached", "attached", "detached again"]
        .iter()
        .zip(exchanges)
    {
        let least_us = all.iter().min().map_or(0.0, |ns| *ns as f64 / 1e3);
        println!("{step:>22}  {:>22}  {least_us:>10.2}", spread(all));
    }
    Ok(())
}

/// Returns the CPU time of an exchange, both ends together.
fn exchange_ns(cpu: usize) -> Result<u64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    let cpu_ns = || {
        let now_ns = read_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0);
        now_ns.cast_unsigned()
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            let mut answer = || {
                server
                    .read_exact(&mut byte)
                    .and_then(|()| server.write_all(&byte))
            };
            let is_pinned = pin(cpu).is_ok();
            while is_pinned && answer().is_ok() {}
        });
        let mut exchange = || {
            client
                .write_all(&[1])
                .and_then(|()| client.read_exact(&mut [0]))
        };
        // the first ones warm up
        (0..EXCHANGES / 4).try_for_each(|_| exchange())?;
        let begin_ns = cpu_ns();
        (0..EXCHANGES).try_for_each(|_| exchange())?;
        let took_ns = cpu_ns() - begin_ns;
        client.shutdown(Shutdown::Both)?;
        Ok(took_ns / EXCHANGES)
    })
}

/// Lets this thread run on one CPU only.
fn pin(cpu: usize) -> Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &only)?)
}

/// Returns the intervals in which this CPU did something else.
fn observe(ends: &AtomicBool) -> Vec<Span> {
    let mut gaps = Vec::new();
    let mut before_ns = monotonic_ns();
    while !ends.load(Ordering::Relaxed) {
        let now_ns = monotonic_ns();
        if now_ns - before_ns > GAP_NS {
            gaps.push((before_ns, now_ns));
        }
        before_ns = now_ns;
    }
    gaps
}

/// Returns the times of each step.
fn measure(hooks: &Hooks<'_>, rounds: usize) -> Result<[Vec<Span>; 5]> {
    let mut spans = [const { Vec::new() }; 5];
    for _ in 0..rounds {
        std::thread::sleep(PAUSE);
        let begin_ns = monotonic_ns();
        hooks.attach_windows()?;
        let attached_ns = monotonic_ns();
        hooks.open_window(LONG)?;
        let opened_ns = monotonic_ns();
        std::thread::sleep(PAUSE);
        let ends_ns = monotonic_ns();
        hooks.close_window()?;
        let closed_ns = monotonic_ns();
        hooks.close_window()?;
        let again_ns = monotonic_ns();
        let length_ns = attached_ns - begin_ns;
        while monotonic_ns() < again_ns + length_ns {}
        let of_round = [
            (begin_ns, attached_ns),
            (attached_ns, opened_ns),
            (ends_ns, closed_ns),
            (closed_ns, again_ns),
            (again_ns, again_ns + length_ns),
        ];
        for (all, span) in spans.iter_mut().zip(of_round) {
            all.push(span);
        }
    }
    Ok(spans)
}

/// Returns how much of an interval the gaps took, in nanoseconds.
fn lost_ns(gaps: &[Span], (begin, end): Span) -> u64 {
    let first = gaps.partition_point(|gap| gap.1 <= begin);
    let within = gaps[first..].iter().take_while(|gap| gap.0 < end);
    within.map(|gap| gap.1.min(end) - gap.0.max(begin)).sum()
}

/// Returns median and quartiles, µs.
fn spread(mut ns: Vec<u64>) -> String {
    ns.sort_unstable();
    let at = |part: usize| {
        ns.get((ns.len() * part / 4).min(ns.len().saturating_sub(1)))
            .map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    format!("{:.1} ({:.1}–{:.1})", at(2), at(1), at(3))
}
