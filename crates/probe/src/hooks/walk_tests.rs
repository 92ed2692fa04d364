//! Walks over active sockets, in a network namespace of the test's own.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};

use super::*;
use crate::clock::monotonic_ns;
use crate::hooks::select::{LoadOptions, OutputMode};
use crate::hooks::tests::root;
use crate::hooks::{Detail, Drainer, Nics, Selection, Storage};
use crate::interface::features::Features;
use crate::netns::Netns;
use crate::watch::{CallSummary, SocketReading};

/// Connected sockets of this process: client and server.
pub(in crate::hooks) struct Pair(
    pub(in crate::hooks) TcpStream,
    pub(in crate::hooks) TcpStream,
);

impl Pair {
    /// Returns the cookies of both sockets.
    pub(in crate::hooks) fn cookies(&self) -> [u64; 2] {
        [&self.0, &self.1].map(|socket| {
            let (mut cookie, mut bytes) = (0_u64, size_of::<u64>() as libc::socklen_t);
            // SAFETY: the descriptor is open, and the kernel writes at most `bytes` to `cookie`.
            let code = unsafe {
                libc::getsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_COOKIE,
                    (&raw mut cookie).cast(),
                    &raw mut bytes,
                )
            };
            assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
            cookie
        })
    }

    /// Sends a byte there and one back.
    pub(in crate::hooks) fn exchange(&mut self) {
        let Self(client, server) = self;
        let mut byte = [0];
        client.write_all(b"?").unwrap();
        server.read_exact(&mut byte).unwrap();
        server.write_all(b"!").unwrap();
        client.read_exact(&mut byte).unwrap();
    }
}

/// Opens this many connections to a listening socket of their own.
pub(in crate::hooks) fn pairs(number: usize) -> Vec<Pair> {
    pairs_of(&TcpListener::bind("127.0.0.1:0").unwrap(), number)
}

/// Opens this many connections to a listening socket.
fn pairs_of(listener: &TcpListener, number: usize) -> Vec<Pair> {
    let address = listener.local_addr().unwrap();
    let connect = |_| {
        let client = TcpStream::connect(address).unwrap();
        client.set_nodelay(true).unwrap();
        Pair(client, listener.accept().unwrap().0)
    };
    (0..number).map(connect).collect()
}

/// Runs `test` with sockets of a new namespace being watched; not without root.
fn with_watched_sockets(active_for: Duration, test: impl FnOnce(&Watching<'_>) + Send) {
    if !root() {
        return;
    }
    let features = Features::probe().unwrap();
    if !features.supported_levels(Detail::Calls, true).active {
        eprintln!("skipped: this kernel has no hooks that see every call");
        return;
    }
    let run = || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let up = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(up.unwrap().success());
        let selection = Selection {
            all: true,
            netns: Some(Netns::current().unwrap().inode()),
            ..Selection::default()
        };
        let what = LoadOptions {
            windows: false,
            selection: &selection,
            detail: Detail::Calls,
            output: OutputMode::Summaries,
            nics: &Nics::default(),
            active_for,
        };
        let mut storage = Storage::uninit();
        let hooks = Hooks::load_with(&mut storage, &what, features).unwrap();
        hooks.attach().unwrap();
        let drainer = hooks.drainer().unwrap();
        assert!(hooks.levels.active, "the kernel refuses read_active");
        test(&Watching {
            hooks: &hooks,
            drainer,
        });
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
}

struct Watching<'a> {
    hooks: &'a Hooks<'a>,
    drainer: Drainer<'a>,
}

impl Watching<'_> {
    /// Polls once; returns what the walk did, and the readings.
    fn walk(&self, which: WalkOf) -> (WalkCounts, Vec<SocketReading>) {
        let before = self.hooks.count_walks();
        let mut more = self.hooks.walk_watched(which, 0, false).unwrap();
        loop {
            while self.drainer.drain(usize::MAX, || ()) > 0 {}
            if !more {
                break;
            }
            more = self.hooks.read_more_sockets().unwrap();
        }
        let drained = self.drainer.take();
        assert!(drained.undecoded.is_empty(), "{:?}", drained.undecoded);
        let after = self.hooks.count_walks();
        let walked = WalkCounts {
            sockets: after.sockets - before.sockets,
            left_out: after.left_out - before.left_out,
            postponed: after.postponed - before.postponed,
            resting: after.resting - before.resting,
            rested: after.rested - before.rested,
        };
        (walked, drained.readings)
    }

    /// Polls until a walk of active sockets visits none of `sockets`.
    fn poll_until_idle(&self, sockets: u64) {
        let give_up = Instant::now() + Duration::from_secs(60);
        loop {
            let (walked, _) = self.walk(WalkOf::Due);
            if (walked.sockets, walked.resting) == (0, sockets) {
                return;
            }
            assert!(Instant::now() < give_up, "{walked:?}");
        }
    }
}

/// More than the delayed-ACK timer takes.
const SHORT: Duration = Duration::from_millis(300);

#[test]
fn next_walk_reads_traffic_on_an_idle_socket() {
    with_watched_sockets(SHORT, |with_watched_sockets| {
        let mut pairs = pairs(7);
        pairs.iter_mut().for_each(Pair::exchange);
        with_watched_sockets.poll_until_idle(14);

        let before_ns = monotonic_ns();
        let before = with_watched_sockets.walk(WalkOf::Every).1;
        let of = |cookie: u64| before.iter().find(|reading| reading.sample.conn == cookie);
        pairs[3].exchange();
        let (walked, readings) = with_watched_sockets.walk(WalkOf::Due);
        assert_eq!((walked.sockets, walked.resting), (2, 12));
        assert_eq!(readings.len(), 2);
        for reading in &readings {
            let earlier = of(reading.sample.conn).unwrap();
            let counts = earlier.calls.clone().advance(&reading.calls);
            assert_eq!(counts.map(|counts| counts.calls()), [1, 1]);
            assert!((before_ns..reading.sample.time_ns).contains(&reading.since_ns));
        }
        with_watched_sockets.poll_until_idle(14);
        assert_eq!(with_watched_sockets.walk(WalkOf::Changed).1.len(), 0);
    });
}

/// No call reports it, and its segment meets a socket on which nothing waits.
#[test]
fn walk_reads_unread_bytes_on_an_idle_socket() {
    with_watched_sockets(SHORT, |with_watched_sockets| {
        let mut pairs = pairs(5);
        with_watched_sockets.poll_until_idle(10);
        pairs[2].0.write_all(b"unread").unwrap();
        let readings = with_watched_sockets.walk(WalkOf::Due).1;
        let unread: Vec<u32> = readings
            .iter()
            .map(|reading| reading.sample.receive_queue_bytes)
            .collect();
        assert_eq!(readings.len(), 2, "{readings:?}");
        assert!(unread.contains(&6), "{unread:?}");
        // for as long as they wait it has news
        let (walked, readings) = with_watched_sockets.walk(WalkOf::Due);
        assert_eq!((walked.rested, readings.len()), (0, 1));
        pairs[2].1.read_exact(&mut [0; 6]).unwrap();
        with_watched_sockets.poll_until_idle(10);
    });
}

/// Walks let sockets rest at the very moment at which calls are made on them: all have been silent for long enough when
/// calls begin on one after the other, and at one of the first, each time another, a walk begins.
///
/// A neighbour that delays one of both threads makes a burst in which they do not meet, no wrong one.
#[test]
fn calls_are_counted_while_a_socket_becomes_idle() {
    const PAIRS: usize = 127;
    const BURSTS: u64 = 101;
    const ACTIVE_FOR: Duration = Duration::from_millis(20);
    with_watched_sockets(ACTIVE_FOR, |with_watched_sockets| {
        let mut pairs = pairs(PAIRS);
        let done = AtomicU64::new(0);
        let mut last: HashMap<u64, SocketReading> = HashMap::new();
        let (mut rested, mut overlapping) = (0, 0);
        let mut call = |bursts: mpsc::Receiver<usize>, walk: mpsc::Sender<()>| {
            for walk_at in bursts {
                for (at, pair) in pairs.iter_mut().enumerate() {
                    if at == walk_at {
                        walk.send(()).unwrap();
                    }
                    pair.exchange();
                }
                done.fetch_add(1, Ordering::Release);
            }
        };
        std::thread::scope(|scope| {
            let (begin, bursts) = mpsc::channel();
            let (walk, walks) = mpsc::channel();
            scope.spawn(move || call(bursts, walk));
            for burst in 1..=BURSTS {
                std::thread::sleep(ACTIVE_FOR);
                // walks over all sockets follow one that found most of them with news: those let none rest
                while with_watched_sockets.hooks.are_most_active() {}
                begin.send(burst as usize % (PAIRS / 4)).unwrap();
                walks.recv().unwrap();
                let mut is_done = false;
                while !is_done {
                    is_done = done.load(Ordering::Acquire) == burst;
                    let (walked, readings) = with_watched_sockets.walk(WalkOf::Due);
                    rested += walked.rested;
                    overlapping += u64::from(walked.rested > 0 && !readings.is_empty());
                    last.extend(readings.into_iter().map(|it| (it.sample.conn, it)));
                }
                for reading in with_watched_sockets.walk(WalkOf::Changed).1 {
                    let (calls, bytes) = (reading.calls, reading.sample.bytes_received);
                    let seen = &last[&reading.sample.conn];
                    assert_eq!((seen.calls, seen.sample.bytes_received), (calls, bytes));
                }
            }
        });
        println!("{rested} came to rest, {overlapping} walks saw calls");
        assert!(rested > 0, "no socket came to rest between two bursts");
        let all = with_watched_sockets.walk(WalkOf::Every).1;
        let counted: HashSet<(u64, u64)> = all
            .iter()
            .map(|reading| {
                let [writes, reads] = CallSummary::default().advance(&reading.calls);
                (writes.calls(), reads.calls())
            })
            .collect();
        assert_eq!(all.len(), 2 * PAIRS);
        assert_eq!(counted, HashSet::from([(BURSTS, BURSTS)]));
    });
}

/// They fail: on a socket that is not connected, and on one that listens. The accepted ones copy its storage.
#[test]
fn failed_call_adds_no_watched_socket() {
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socket};
    const PAIRS: usize = 3;
    with_watched_sockets(SHORT, |with_watched_sockets| {
        let flags = SockFlag::SOCK_CLOEXEC;
        let lonely = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
        let sent = send(lonely.as_raw_fd(), b"?", MsgFlags::MSG_NOSIGNAL);
        assert_eq!(sent, Err(nix::errno::Errno::EPIPE));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let received = recv(listener.as_raw_fd(), &mut [0], MsgFlags::empty());
        assert_eq!(received, Err(nix::errno::Errno::ENOTCONN));
        assert_eq!(with_watched_sockets.hooks.watched_sockets(), 0);

        let mut pairs = pairs_of(&listener, PAIRS);
        pairs.iter_mut().for_each(Pair::exchange);
        assert_eq!(
            with_watched_sockets.hooks.watched_sockets(),
            2 * PAIRS as u64
        );
        let readings = with_watched_sockets.walk(WalkOf::Every).1;
        let conns: HashSet<u64> = readings.iter().map(|it| it.sample.conn).collect();
        assert_eq!(conns.len(), 2 * PAIRS);
        drop(pairs);
        let give_up = Instant::now() + Duration::from_secs(60);
        while with_watched_sockets.hooks.watched_sockets() > 0 {
            assert!(Instant::now() < give_up);
            std::thread::yield_now();
        }
    });
}

/// The ring is full, so that a socket with news is left to further walks of the poll: those meet all others again.
#[test]
fn further_walk_counts_each_socket_once() {
    with_watched_sockets(SHORT, |with_watched_sockets| {
        let mut pairs = pairs(53);
        with_watched_sockets.poll_until_idle(106);
        let walk = |which| {
            with_watched_sockets
                .hooks
                .walk_watched(which, 0, false)
                .unwrap()
        };
        let give_up = Instant::now() + Duration::from_secs(60);
        while !walk(WalkOf::Every) {
            assert!(Instant::now() < give_up, "the ring is never full");
        }
        pairs[0].exchange();
        for (which, unchanged) in [(WalkOf::Due, 0), (WalkOf::Changed, 104)] {
            let before = with_watched_sockets.hooks.count_walks();
            assert!(walk(which));
            assert!(with_watched_sockets.hooks.read_more_sockets().unwrap());
            let after = with_watched_sockets.hooks.count_walks();
            assert_eq!(after.sockets - before.sockets, unchanged, "{which:?}");
            assert_eq!(after.postponed - before.postponed, 2 * 2, "{which:?}");
        }
    });
}

/// The other end has not closed, and takes its time with the ACK.
#[test]
fn late_ack_of_a_fin_is_no_rtt_sample() {
    const FIN_WAIT2: u8 = 5;
    with_watched_sockets(SHORT, |with_watched_sockets| {
        let mut pairs = pairs(1);
        (0..20).for_each(|_| pairs[0].exchange());
        with_watched_sockets.poll_until_idle(2);
        let before = with_watched_sockets.walk(WalkOf::Every).1;
        pairs[0].0.shutdown(std::net::Shutdown::Write).unwrap();
        let give_up = Instant::now() + Duration::from_secs(60);
        let after = loop {
            let mut readings = with_watched_sockets.walk(WalkOf::Every).1;
            readings.retain(|reading| reading.sample.state == FIN_WAIT2);
            if let Some(client) = readings.pop() {
                break client;
            }
            assert!(Instant::now() < give_up, "{before:?}");
        };
        let is_client = |reading: &&SocketReading| reading.sample.conn == after.sample.conn;
        let before = before.iter().find(is_client).unwrap();
        let smoothed_us = [before, &after].map(|reading| reading.sample.srtt_us);
        assert_ne!(smoothed_us[0], smoothed_us[1], "the kernel took no sample");
        let samples = |reading: &SocketReading| {
            let stages = reading.stages.as_ref().unwrap();
            (stages.rtt_sum_us, stages.rtt_samples)
        };
        assert_eq!(samples(&after), samples(before));
    });
}
