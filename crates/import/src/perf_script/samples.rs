//! Sampled call stacks → spans: a function ran from the first of successive samples that show it to
//! the first that does not.

use std::rc::Rc;

use table::{ActivityKind, ActivitySource};

use table::spans::{SpanOwner, SpanSubject, SpanTimeline};

/// A function of a stack, or the address of an unknown one.
pub(crate) type SampledFrame = (Option<Rc<str>>, u64);

/// The spans of one thread's samples.
#[derive(Debug)]
pub(crate) struct SampledSpans {
    owner: SpanOwner,
    lane: SpanTimeline,
    /// Outermost first.
    open: Vec<(usize, SampledFrame)>,
    last_ns: u64,
}

impl SampledSpans {
    /// Begins the spans of one thread.
    pub(crate) fn new(owner: SpanOwner) -> Self {
        Self {
            owner,
            lane: SpanTimeline::default(),
            open: Vec::new(),
            last_ns: 0,
        }
    }

    /// Returns the time of the last sample.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Takes a sample, innermost frame first.
    pub(crate) fn sample(&mut self, time_ns: u64, frames: Vec<SampledFrame>) {
        self.last_ns = time_ns;
        let same = |((_, open), now): &(&(usize, SampledFrame), &SampledFrame)| {
            has_same_function(open, now)
        };
        let shared = self.open.iter().zip(frames.iter().rev());
        let shared = shared.take_while(same).count();
        while self.open.len() > shared {
            self.close(time_ns);
        }
        for frame in frames.into_iter().rev().skip(shared) {
            self.open(time_ns, frame);
        }
    }

    /// Ends all at the last sample.
    pub(crate) fn finish(mut self) -> SpanTimeline {
        while !self.open.is_empty() {
            self.close(self.last_ns);
        }
        self.lane
    }

    /// Begins the span of a function.
    fn open(&mut self, time_ns: u64, frame: SampledFrame) {
        let what = SpanSubject {
            kind: ActivityKind::Function,
            name: frame.0.clone(),
            owner: self.owner,
            source: ActivitySource::Samples,
        };
        let span = self.lane.open(what, time_ns, false);
        self.open.push((span, frame));
    }

    /// Ends the innermost function.
    fn close(&mut self, time_ns: u64) {
        if let Some((span, _)) = self.open.pop() {
            self.lane.close(span, time_ns, false);
        }
    }
}

/// Returns whether two frames have the same function; of unknown ones, the same place.
fn has_same_function(one: &SampledFrame, other: &SampledFrame) -> bool {
    match (&one.0, &other.0) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.1 == other.1,
        _ => false,
    }
}
