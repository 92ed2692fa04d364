//! Flights after a pause, with more out than a new connection may have: did they lose segments?

use table::tables::TcpStage;

use super::super::sequence::Offset;

/// A flight after a pause; `None`: there is none.
#[derive(Debug, Clone, Copy, Default)]
pub struct BurstWatch(Option<Burst>);

#[derive(Debug, Clone, Copy)]
struct Burst {
    /// Its first window ends here; `None`: nothing of it is acknowledged yet.
    end: Option<Offset>,
    /// Segments of it were lost since then.
    lost_ns: Option<u64>,
}

impl BurstWatch {
    /// Data follows a pause.
    pub fn begin(&mut self) {
        self.0 = Some(Burst {
            end: None,
            lost_ns: None,
        });
    }

    /// The first window is out, up to `next`.
    pub fn see_window(&mut self, row: &mut TcpStage, next: Offset, is_large: bool) {
        let Some(burst) = self.0.as_mut().filter(|burst| burst.end.is_none()) else {
            return;
        };
        burst.end = Some(next);
        match is_large {
            true => row.bursts_after_idle += 1,
            false => self.0 = None,
        }
    }

    /// Data was lost, from `first` on: of the first window?
    pub fn lose(&mut self, row: &mut TcpStage, first: Offset, (is_large, sent_ns): (bool, u64)) {
        match &mut self.0 {
            Some(burst) if is_large && burst.end.is_none_or(|end| first < end) => {
                burst.lost_ns = Some(sent_ns);
                row.burst_losses += 1;
            }
            _ => self.0 = None,
        }
    }

    /// All that was lost is acknowledged.
    pub fn recover(&mut self, row: &mut TcpStage, now_ns: u64) {
        if let Some(lost_ns) = self.0.take().and_then(|burst| burst.lost_ns) {
            row.burst_loss_ns += now_ns.saturating_sub(lost_ns);
        }
    }
}
