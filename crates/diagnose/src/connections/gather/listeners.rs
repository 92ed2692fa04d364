//! Readings of listening sockets: what each dropped, and how much of it found a full queue.

use table::tables::Listener;

use crate::kernel::{TCP_RTO_MIN_NS, TCP_TIMEOUT_INIT_NS};

/// Most packets that a client sends in such a wait: the last ACK, a first window (TCP_INIT_CWND) and a
/// tail-loss probe (tcp_send_loss_probe()). Each meets the full queue (tcp_check_req()) and counts.
const PACKETS_EACH: u64 = 1 + 10 + 1;

/// Readings of one listening socket, within the judged span.
#[derive(Debug, Clone, Default)]
pub struct ListenerDigest {
    /// Since when it is judged, ns: the first reading, or listen() itself.
    pub since_ns: u64,
    /// Last reading, ns.
    pub until_ns: u64,
    /// How many may wait to be accepted.
    pub waiting_max: u32,
    /// Most that any reading found waiting.
    pub most_waiting: u32,
    /// Dropped before that time, as far as known.
    pub drops_before: u32,
    /// Drops in that time.
    pub drops: ListenDrops,
    /// Other listening sockets of its namespace that dropped something while it did.
    pub beside: usize,
    /// Whether no queue of its namespace was ever full, by the last reading.
    pub never_full: bool,
    last: Option<ListenCounters>,
    readings: u64,
}

/// Drops of a listening socket, all counted by the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenDrops {
    /// All.
    pub all: u64,
    /// Packets that found a full queue: as many as both the socket and its namespace allow.
    pub refused: u64,
    /// SYNs among them, at least, if no other socket of the namespace had part in it.
    pub refused_syns: u64,
    /// Packets that found a full queue of any socket of the namespace in that time.
    overflows: u64,
    /// Drops while it was not known how often queues were full.
    pub untold: u64,
    /// From when to when they happened, between two readings, ns.
    pub within_ns: Option<(u64, u64)>,
}

/// Counters of one reading.
#[derive(Debug, Clone, Copy, Default)]
struct ListenCounters {
    time_ns: u64,
    drops: u32,
    overflows: Option<u64>,
    cookies: Option<u64>,
}

impl ListenCounters {
    fn from_reading(reading: &Listener) -> Self {
        Self {
            time_ns: reading.time_ns,
            drops: reading.drops,
            overflows: reading.netns_listen_overflows,
            cookies: reading.netns_syncookies_received,
        }
    }
}

/// Returns the growth of a counter; 0 if the counter is 0 now, `None` if unknown.
fn counter_growth(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    match (before, now) {
        (_, Some(0)) => Some(0),
        (before, now) => Some(now?.saturating_sub(before?)),
    }
}

impl ListenDrops {
    /// Adds what happened between two readings.
    ///
    /// A SYN that meets a full queue counts one drop (tcp_conn_request()), a last ACK or data behind it
    /// two (tcp_v4_syn_recv_sock(), then `discard_and_relse` in tcp_v4_rcv()), unless it carries a SYN
    /// cookie (cookie_v4_check()); each counts one overflow. So of `refused` packets that make `drops`,
    /// at least `2 * refused - drops - cookies` are SYNs.
    fn add(&mut self, before: ListenCounters, now: ListenCounters) {
        let drops = u64::from(now.drops.saturating_sub(before.drops));
        if drops == 0 {
            return;
        }
        self.all += drops;
        let since_ns = self
            .within_ns
            .map_or(before.time_ns, |(since_ns, _)| since_ns);
        self.within_ns = Some((since_ns, now.time_ns));
        let Some(overflows) = counter_growth(before.overflows, now.overflows) else {
            self.untold += drops;
            return;
        };
        self.overflows += overflows;
        let refused = overflows.min(drops);
        self.refused += refused;
        let cookies = counter_growth(before.cookies, now.cookies).unwrap_or(refused);
        self.refused_syns += (2 * refused).saturating_sub(drops).saturating_sub(cookies);
    }

    /// Returns the least number of drops without a full queue: a packet that found one counts twice
    /// at most.
    pub fn other_drops(&self) -> u64 {
        self.all
            .saturating_sub(self.untold)
            .saturating_sub(2 * self.refused)
    }
}

impl ListenerDigest {
    /// Returns the least that clients waited together, ns. After a refused last ACK the client's data waits for the
    /// retransmission timer; without data, for the server's SYN-ACK, which comes again after TCP_TIMEOUT_INIT.
    pub fn least_wait_ns(&self) -> u64 {
        let syns = self.drops.refused_syns;
        let flights = (self.drops.refused - syns).div_ceil(PACKETS_EACH);
        syns * TCP_TIMEOUT_INIT_NS + flights * TCP_RTO_MIN_NS
    }

    /// Returns the judged duration of the listening socket, ns.
    pub fn life_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.since_ns)
    }

    /// Adds a reading of the socket; readings come in the order of time. What was dropped before
    /// the span, or before the first reading of a socket that listened already, does not count.
    pub fn add(&mut self, reading: &Listener, span: (u64, u64)) {
        if reading.time_ns > span.1 {
            return;
        }
        let now = ListenCounters::from_reading(reading);
        let began = reading.listen_ns.filter(|ns| *ns >= span.0);
        if reading.time_ns < span.0 || (self.readings == 0 && began.is_none()) {
            self.drops_before = reading.drops;
            self.since_ns = reading.time_ns.max(span.0);
            self.last = Some(now);
        } else if self.readings == 0 {
            self.since_ns = began.unwrap_or(reading.time_ns);
        }
        if reading.time_ns < span.0 {
            return;
        }
        let since_listen = ListenCounters {
            time_ns: self.since_ns,
            ..ListenCounters::default()
        };
        self.drops.add(self.last.unwrap_or(since_listen), now);
        self.last = Some(now);
        self.never_full = reading.netns_listen_overflows == Some(0);
        self.readings += 1;
        self.until_ns = reading.time_ns;
        self.waiting_max = reading.waiting_max;
        self.most_waiting = self.most_waiting.max(reading.waiting);
    }
}

/// Counts for each socket the others of its namespace that dropped packets at the same time. Divides the packets that
/// found full queues among them: the kernel does not show which queue was full.
pub fn compare<'a>(sockets: impl Iterator<Item = (u32, &'a mut ListenerDigest)>) {
    let dropped = |(netns, digest): (u32, &'a mut ListenerDigest)| {
        let within_ns = digest.drops.within_ns?;
        Some((netns, within_ns, digest))
    };
    let mut sockets: Vec<_> = sockets.filter_map(dropped).collect();
    sockets.sort_by_key(|(netns, within_ns, _)| (*netns, *within_ns));
    let mut together = Vec::new();
    let mut last = None;
    for (netns, (since_ns, until_ns), digest) in sockets {
        let open_ns = last.filter(|(of, _)| *of == netns).map(|(_, ns)| ns);
        if open_ns.is_none_or(|open_ns| since_ns > open_ns) {
            divide_drops(std::mem::take(&mut together));
        }
        last = Some((netns, open_ns.map_or(until_ns, |ns: u64| ns.max(until_ns))));
        together.push(digest);
    }
    divide_drops(together);
}

/// Divides the packets that found full queues, in proportion to the drops of each socket.
fn divide_drops(together: Vec<&mut ListenerDigest>) {
    let beside = together.len().saturating_sub(1);
    let all: u64 = together.iter().map(|digest| digest.drops.all).sum();
    if beside == 0 {
        return;
    }
    for digest in together {
        let drops = &mut digest.drops;
        digest.beside = beside;
        let part = u128::from(drops.overflows) * u128::from(drops.all);
        let part = u64::try_from(part.div_ceil(u128::from(all))).unwrap_or(u64::MAX);
        drops.refused = drops.refused.min(part);
        drops.refused_syns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: (u64, u64) = (0, u64::MAX);

    /// Overflows and cookies of a namespace.
    type CounterPair = Option<(u64, u64)>;

    /// A reading of a socket that listened before.
    fn reading(time_ns: u64, drops: u32, counts: CounterPair) -> Listener {
        Listener {
            conn: 9,
            time_ns,
            netns: 7,
            local: "10.0.0.1:80".to_owned(),
            pid: None,
            listen_ns: None,
            closed_ns: None,
            waiting: 0,
            waiting_max: 4,
            drops,
            netns_listen_overflows: counts.map(|(overflows, _)| overflows),
            netns_syncookies_received: counts.map(|(_, cookies)| cookies),
            descriptors_most: None,
            descriptors_full: None,
        }
    }

    /// Makes the digest of readings: time, drops, counters of the namespace.
    fn digest(readings: &[(u64, u32, CounterPair)]) -> ListenerDigest {
        let mut digest = ListenerDigest::default();
        for (time_ns, drops, counts) in readings {
            digest.add(&reading(*time_ns, *drops, *counts), SPAN);
        }
        digest
    }

    /// Returns drops in all, refused packets, refused SYNs, and drops of an unknown kind.
    fn seen(digest: &ListenerDigest) -> (u64, u64, u64, u64) {
        let drops = &digest.drops;
        (drops.all, drops.refused, drops.refused_syns, drops.untold)
    }

    #[test]
    fn a_refused_syn_drops_once_and_a_refused_ack_twice() {
        let syns = digest(&[(1, 5, Some((40, 0))), (2, 12, Some((47, 0)))]);
        assert_eq!(seen(&syns), (7, 7, 7, 0));
        let acks = digest(&[(1, 5, Some((40, 0))), (2, 19, Some((47, 0)))]);
        assert_eq!(seen(&acks), (14, 7, 0, 0));
        let cookies = digest(&[(1, 5, Some((40, 3))), (2, 12, Some((47, 8)))]);
        assert_eq!(seen(&cookies), (7, 7, 2, 0));
        assert_eq!(acks.drops.other_drops(), 0);
    }

    #[test]
    fn refusals_are_bounded_by_both_counters() {
        let deferred = digest(&[(1, 0, Some((3, 0))), (2, 11, Some((3, 0)))]);
        assert_eq!(seen(&deferred), (11, 0, 0, 0));
        assert_eq!(deferred.drops.other_drops(), 11);
        // Others' overflows while it drops nothing are not its own.
        let apart = digest(&[
            (1, 0, Some((3, 0))),
            (2, 11, Some((3, 0))),
            (3, 11, Some((90, 0))),
            (4, 16, Some((92, 0))),
        ]);
        assert_eq!(seen(&apart), (16, 2, 0, 0));
        assert_eq!(apart.drops.other_drops(), 12);
    }

    #[test]
    fn unknown_counter_is_not_zero() {
        let unknown = digest(&[(1, 2, None), (2, 9, None)]);
        assert_eq!(seen(&unknown), (7, 0, 0, 7));
        let since = digest(&[(1, 2, None), (2, 9, Some((4, 0))), (3, 10, Some((5, 0)))]);
        assert_eq!(seen(&since), (8, 1, 1, 7));
        // A counter that is zero was never more.
        let never = digest(&[(1, 2, None), (2, 9, Some((0, 0)))]);
        assert_eq!(seen(&never), (7, 0, 0, 0));
        assert!(never.never_full && !since.never_full);
    }

    #[test]
    fn drops_count_from_listen_or_the_first_reading() {
        let mut begun = ListenerDigest::default();
        let first = Listener {
            listen_ns: Some(5),
            ..reading(6, 0, Some((100, 0)))
        };
        begun.add(&first, SPAN);
        let last = Listener {
            listen_ns: Some(5),
            ..reading(9, 3, Some((103, 0)))
        };
        begun.add(&last, SPAN);
        assert_eq!((seen(&begun), begun.since_ns), ((3, 3, 3, 0), 5));
        // The reading of listen() is lost: what the namespace had counted then is not known.
        let mut lost = ListenerDigest::default();
        lost.add(&last, SPAN);
        assert_eq!((seen(&lost), lost.since_ns), ((3, 0, 0, 3), 5));
        assert_eq!(seen(&digest(&[(6, 3, Some((103, 0)))])), (0, 0, 0, 0));
    }

    #[test]
    fn sockets_that_drop_at_the_same_time_share_the_packets_of_full_queues() {
        let mut one = digest(&[(1, 0, Some((0, 0))), (5, 14, Some((10, 0)))]);
        let mut two = digest(&[(4, 0, Some((0, 0))), (9, 6, Some((10, 0)))]);
        let mut later = digest(&[(20, 0, Some((10, 0))), (29, 6, Some((12, 0)))]);
        let mut elsewhere = one.clone();
        let quiet = &mut digest(&[(1, 4, Some((0, 0))), (9, 4, Some((10, 0)))]);
        let sockets = [
            (7, &mut one),
            (7, &mut later),
            (7, &mut two),
            (7, quiet),
            (8, &mut elsewhere),
        ];
        compare(sockets.into_iter());
        let shared = |digest: &ListenerDigest| (digest.beside, digest.drops.refused);
        assert_eq!((shared(&one), shared(&two)), ((1, 7), (1, 3)));
        assert_eq!((one.drops.refused_syns, two.drops.refused_syns), (0, 0));
        assert_eq!((shared(&later), shared(&elsewhere)), ((0, 2), (0, 10)));
        assert_eq!(elsewhere.drops.refused_syns, 6);
    }
}
