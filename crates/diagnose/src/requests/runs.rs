//! Requests of a thread in series: each starts after the response to the one before, and sooner than the path takes for a
//! round trip. What they spend on the path could be spent once.

use super::series::RequestBefore;

/// Requests in a row before they count as a series: what the initial window of a connection carries in one round trip (ten
/// segments, RFC 6928). Fewer are what protocols need to begin: a greeting, a login, a question.
pub const SERIES_LEAST: u64 = 10;

/// One request, as far as series are concerned.
#[derive(Debug, Clone, Copy)]
pub struct SeriesRequest {
    /// When it began and ended, ns.
    pub time: (u64, u64),
    /// Requests that the thread had begun to serve by then: those of different ones are no series.
    pub served: u64,
    /// One round trip of the path, no longer than the request was on the path, ns; 0: none is known.
    pub round_trip_ns: u64,
    /// Bytes that a small message let the other end send; 0: it is an ordinary request.
    pub credit_bytes: u64,
}

/// Requests of one thread to one service that follow each other until now.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadRun {
    end_ns: u64,
    served: u64,
    is_cut: bool,
    sums: RunSums,
}

impl ThreadRun {
    /// Returns the last request.
    pub fn before(&self) -> RequestBefore {
        match self.end_ns {
            0 => RequestBefore::None,
            _ if self.is_cut => RequestBefore::Unseen,
            end_ns => RequestBefore::Ended(end_ns),
        }
    }

    /// Ends the run at the end of a window: what follows is another run.
    pub fn cut(&mut self) {
        self.is_cut = true;
        self.sums = RunSums::default();
    }

    /// Notes the end of a request that is of no series.
    pub fn pass(&mut self, end_ns: u64) {
        self.is_cut = false;
        self.end_ns = end_ns;
    }
}

/// Sums over requests in a row.
#[derive(Debug, Clone, Copy, Default)]
struct RunSums {
    requests: u64,
    duration_ns: u64,
    gaps_ns: u64,
    /// Round trips of all but the first.
    round_trips_ns: u64,
    credits: CreditSums,
}

/// Small messages that let the other end send on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CreditSums {
    /// How many.
    pub count: u64,
    /// Bytes that came after them.
    pub bytes: u64,
    /// Most bytes that came after one.
    pub most_bytes: u64,
}

impl CreditSums {
    /// Returns the credit of one request: a small message that lets the sender go on.
    fn new(request: &SeriesRequest) -> Self {
        Self {
            count: u64::from(request.credit_bytes > 0),
            bytes: request.credit_bytes,
            most_bytes: request.credit_bytes,
        }
    }

    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.most_bytes = self.most_bytes.max(other.most_bytes);
    }
}

/// Series of requests of a service.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunDigest {
    /// How many series.
    pub runs: u64,
    /// Requests of all series.
    pub requests: u64,
    /// Requests of the longest one.
    pub longest: u64,
    /// Duration of these requests, ns.
    pub duration_ns: u64,
    /// Time from responses to the next requests, ns.
    pub gaps_ns: u64,
    /// Round trips of all but the first of each, ns.
    pub round_trips_ns: u64,
    /// Those of them that only let the other end send on.
    pub credits: CreditSums,
}

impl RunDigest {
    /// Adds the next request of a thread.
    pub fn add(&mut self, run: &mut ThreadRun, request: &SeriesRequest) {
        let (begin_ns, end_ns) = request.time;
        let gap_ns = begin_ns.checked_sub(run.end_ns);
        let gap_ns = gap_ns.filter(|ns| {
            let is_soon = *ns <= request.round_trip_ns && request.round_trip_ns > 0;
            run.sums.requests > 0 && run.served == request.served && is_soon
        });
        let duration_ns = end_ns.saturating_sub(begin_ns);
        let sums = &mut run.sums;
        match gap_ns {
            Some(gap_ns) => {
                sums.requests += 1;
                sums.duration_ns += duration_ns;
                sums.gaps_ns += gap_ns;
                sums.round_trips_ns += request.round_trip_ns;
                sums.credits.add(CreditSums::new(request));
                let last = RunSums {
                    requests: 1,
                    duration_ns,
                    gaps_ns: gap_ns,
                    round_trips_ns: request.round_trip_ns,
                    credits: CreditSums::new(request),
                };
                match sums.requests {
                    SERIES_LEAST => {
                        self.runs += 1;
                        self.add_run(&sums.clone());
                    }
                    requests if requests > SERIES_LEAST => self.add_run(&last),
                    _ => {}
                }
                self.longest = self.longest.max(sums.requests);
            }
            None => {
                *sums = RunSums {
                    requests: 1,
                    duration_ns,
                    credits: CreditSums::new(request),
                    ..RunSums::default()
                };
            }
        }
        run.pass(end_ns);
        run.served = request.served;
    }

    /// Adds the sums of one run of requests.
    fn add_run(&mut self, sums: &RunSums) {
        self.requests += sums.requests;
        self.duration_ns += sums.duration_ns;
        self.gaps_ns += sums.gaps_ns;
        self.round_trips_ns += sums.round_trips_ns;
        self.credits.add(sums.credits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Adds a run of requests, 20 ms each, with this gap between them.
    fn run(digest: &mut RunDigest, requests: u64, gap_ns: u64, served: impl Fn(u64) -> u64) {
        let mut run = ThreadRun::default();
        for number in 0..requests {
            let begin_ns = MS + number * (20 * MS + gap_ns);
            let request = SeriesRequest {
                time: (begin_ns, begin_ns + 20 * MS),
                served: served(number),
                round_trip_ns: 19 * MS,
                credit_bytes: 0,
            };
            digest.add(&mut run, &request);
        }
    }

    #[test]
    fn requests_in_a_row_are_a_series() {
        let mut digest = RunDigest::default();
        run(&mut digest, 9, 0, |_| 0);
        assert_eq!((digest.runs, digest.requests, digest.longest), (0, 0, 9));
        run(&mut digest, 31, MS, |_| 0);
        assert_eq!((digest.runs, digest.requests, digest.longest), (1, 31, 31));
        assert_eq!(digest.duration_ns, 31 * 20 * MS);
        assert_eq!(digest.gaps_ns, 30 * MS);
        assert_eq!(digest.round_trips_ns, 30 * 19 * MS);
    }

    #[test]
    fn pauses_and_other_served_requests_end_a_series() {
        let mut digest = RunDigest::default();
        run(&mut digest, 100, 20 * MS, |_| 0);
        run(&mut digest, 100, 0, |number| number);
        assert_eq!((digest.runs, digest.requests), (0, 0));
    }
}
