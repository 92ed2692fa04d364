//! When a runtime's socket is asked. In: answers, or none. Out: a pause after each time without an answer, which grows.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cri::{self, SandboxAnswer, Silence};

/// Pauses after calls without an answer: those of gRPC between its own attempts to connect (`doc/connection-backoff.md` of
/// gRPC). Its jitter is for many clients; a runtime has one here.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
const PAUSE_FACTOR: f64 = 1.6;
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// A socket of a runtime.
#[derive(Debug)]
pub(super) struct RuntimeSocket {
    path: PathBuf,
    /// Why the last call had no answer; `None`: it had one, or there was none.
    silence: Option<Silence>,
    /// The last one.
    pause: Option<Duration>,
    /// It is not asked before.
    due: Instant,
}

impl RuntimeSocket {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            silence: None,
            pause: None,
            due: Instant::now(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns why the last call had no answer.
    pub(super) fn silence(&self) -> Option<Silence> {
        self.silence
    }

    /// Returns when it may be asked again.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Takes note of a call that ended at `now`; `silence`: why it had no answer.
    pub(super) fn note(&mut self, silence: Option<Silence>, now: Instant) {
        self.pause = match (silence, self.pause) {
            (None, _) => None,
            // who may not open it now will hardly be allowed to later
            (Some(Silence::NotPermitted), _) => Some(LONGEST_PAUSE),
            (Some(Silence::NoAnswer), None) => Some(FIRST_PAUSE),
            (Some(Silence::NoAnswer), Some(last)) => {
                Some(last.mul_f64(PAUSE_FACTOR).min(LONGEST_PAUSE))
            }
        };
        self.silence = silence;
        self.due = now + self.pause.unwrap_or_default();
    }
}

/// A call, and its answer.
pub(super) type CallAnswer = (SandboxCall, Result<Vec<SandboxAnswer>, Silence>);

/// A call that is to be made.
#[derive(Debug)]
pub(super) struct SandboxCall {
    /// Number of the socket.
    pub(super) socket: usize,
    pub(super) path: PathBuf,
    /// Sandboxes that are wanted; of more than one, all sandboxes are listed.
    pub(super) ids: Vec<String>,
}

impl SandboxCall {
    /// Makes it, and waits for the answer.
    pub(super) fn make(self) -> CallAnswer {
        let only = match self.ids.as_slice() {
            [id] => Some(id.as_str()),
            _ => None,
        };
        let answer = cri::list(&self.path, only);
        (self, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_two_minutes_and_end_with_an_answer() {
        let mut socket = RuntimeSocket::new(PathBuf::new());
        let begin = Instant::now();
        assert!(socket.due() <= begin && socket.silence().is_none());
        let mut pauses = Vec::new();
        for _ in 0..20 {
            socket.note(Some(Silence::NoAnswer), begin);
            assert_eq!(socket.silence(), Some(Silence::NoAnswer));
            pauses.push((socket.due() - begin).as_secs_f64());
        }
        let first: Vec<_> = pauses[..4].iter().map(|it| (it * 1e3).round()).collect();
        assert_eq!(first, [1000.0, 1600.0, 2560.0, 4096.0]);
        assert_eq!(pauses[19], 120.0);
        socket.note(None, begin);
        assert_eq!((socket.due(), socket.silence()), (begin, None));
        socket.note(Some(Silence::NotPermitted), begin);
        assert_eq!(socket.due() - begin, LONGEST_PAUSE);
    }
}
