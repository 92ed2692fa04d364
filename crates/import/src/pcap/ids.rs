//! IPv4's identification: Linux numbers the packets of a connection one by one, so that a number that is left out is a packet
//! that did not come here.

/// More packets than these are not lost one after another, if numbers did not run on before: another counter began.
const MISSING_MOST: u16 = 64;

/// So many numbers in order to each jump show that they are of this connection alone.
const ORDERLY_STEPS: u32 = 32;

/// Numbers of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdCounter {
    /// Number that the next packet has, if none is lost.
    next: Option<u16>,
    in_order: u32,
    jumps: u32,
    missing: u16,
}

impl IdCounter {
    /// Counts a packet, which may be a bundle of `segments`.
    pub fn add(&mut self, id: u16, segments: u16) {
        let missing = self.next.map_or(0, |next| id.wrapping_sub(next));
        match missing {
            0 => self.in_order = self.in_order.saturating_add(1),
            _ => self.jumps = self.jumps.saturating_add(1),
        }
        let most = match self.in_order >= ORDERLY_STEPS.saturating_mul(self.jumps) {
            true => u16::MAX / 2,
            false => MISSING_MOST,
        };
        self.missing = if missing <= most { missing } else { 0 };
        self.next = Some(id.wrapping_add(segments));
    }

    /// Returns how many packets were sent before the latest and did not pass.
    pub fn missing(&self) -> u16 {
        self.missing
    }
}
