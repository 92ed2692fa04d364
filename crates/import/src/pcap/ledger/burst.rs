//! Flights after a pause, with more out than a new connection may have: did they lose segments?

use table::tables::TcpStage;

use super::super::sequence::Offset;

/// A flight after a pause; `None`: there is none.
#[derive(Debug, Clone, Copy, Default)]
pub struct BurstWatch(Option<Burst>);

#[derive(Debug, Clone, Copy, Default)]
struct Burst {
    /// Part of it is acknowledged.
    is_acked: bool,
    /// Its first window ends here; `None`: nothing that was sent later passed. What is missing before that was sent with it:
    /// behind a loss, a capture has the end of a window only by that.
    end: Option<Offset>,
    /// Segments of it were lost since then.
    lost_ns: Option<u64>,
}

impl BurstWatch {
    /// Begins to watch the first window of data after a pause.
    pub fn begin(&mut self) {
        self.0 = Some(Burst::default());
    }

    /// Ends the watch: data was acknowledged, so the first window is out.
    pub fn see_ack(&mut self, row: &mut TcpStage, is_large: bool) {
        let Some(burst) = self.0.as_mut().filter(|burst| !burst.is_acked) else {
            return;
        };
        burst.is_acked = true;
        match is_large {
            true => row.bursts_after_idle += 1,
            false => self.0 = None,
        }
    }

    /// Notes the first new data, from `first` on.
    pub fn see_next(&mut self, first: Offset) {
        if let Some(burst) = self.0.as_mut().filter(|burst| burst.is_acked) {
            burst.end.get_or_insert(first);
        }
    }

    /// Notes data that was lost from `first` on, if it is of the first window.
    pub fn lose(&mut self, row: &mut TcpStage, first: Offset, (is_large, sent_ns): (bool, u64)) {
        match &mut self.0 {
            Some(burst) if is_large && burst.end.is_none_or(|end| first < end) => {
                burst.lost_ns = Some(sent_ns);
                row.burst_losses += 1;
            }
            _ => self.0 = None,
        }
    }

    /// Ends the recovery, as all lost data is acknowledged.
    pub fn recover(&mut self, row: &mut TcpStage, now_ns: u64) {
        if let Some(lost_ns) = self.0.take().and_then(|burst| burst.lost_ns) {
            row.burst_loss_ns += now_ns.saturating_sub(lost_ns);
        }
    }
}
