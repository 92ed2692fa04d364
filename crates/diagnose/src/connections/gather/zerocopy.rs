//! Zero-copy sends of one connection: rows of `zerocopy_sends` in, sums of both interfaces out.

use table::ZerocopyInterface;
use table::tables::ZerocopySend;

/// Zero-copy sends, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ZerocopyCounts {
    /// Not copied.
    pub not_copied: u64,
    /// Copied after all.
    pub copied: u64,
    /// It is not known whether they were copied.
    pub unknown: u64,
}

impl ZerocopyCounts {
    const fn from_row(row: &ZerocopySend) -> Self {
        Self {
            not_copied: row.not_copied,
            copied: row.copied,
            unknown: row.unknown,
        }
    }

    /// Returns the growth since an earlier reading. Late reports make unknown ones known.
    fn growth_since(self, before: Self) -> Self {
        Self {
            not_copied: self.not_copied.saturating_sub(before.not_copied),
            copied: self.copied.saturating_sub(before.copied),
            unknown: self.unknown.saturating_sub(before.unknown),
        }
    }

    fn add_counts(self, other: Self) -> Self {
        Self {
            not_copied: self.not_copied + other.not_copied,
            copied: self.copied + other.copied,
            unknown: self.unknown + other.unknown,
        }
    }

    /// Returns the number of sends with a known result.
    pub const fn count_known(self) -> u64 {
        self.not_copied + self.copied
    }
}

/// Readings of one interface: before the judged time, and the last one.
#[derive(Debug, Clone, Copy, Default)]
struct InterfaceReadings {
    before: ZerocopyCounts,
    last: ZerocopyCounts,
}

/// Zero-copy sends of one connection in the judged time.
#[derive(Debug, Clone, Copy, Default)]
pub struct ZerocopyDigest {
    msg: InterfaceReadings,
    uring: InterfaceReadings,
}

impl ZerocopyDigest {
    /// Adds a row, in the order of time.
    pub fn add(&mut self, row: &ZerocopySend, span: (u64, u64)) {
        if row.time_ns > span.1 {
            return;
        }
        let readings = match row.interface {
            ZerocopyInterface::MsgZerocopy => &mut self.msg,
            ZerocopyInterface::IoUring => &mut self.uring,
        };
        readings.last = ZerocopyCounts::from_row(row);
        if row.time_ns < span.0 {
            readings.before = readings.last;
        }
    }

    /// Returns the zero-copy sends of `MSG_ZEROCOPY`, and those of io_uring.
    pub fn by_interface(&self) -> [ZerocopyCounts; 2] {
        [self.msg, self.uring].map(|it| it.last.growth_since(it.before))
    }

    /// Returns the zero-copy sends of all interfaces.
    pub fn all_sends(&self) -> ZerocopyCounts {
        let [msg, uring] = self.by_interface();
        msg.add_counts(uring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_both_interfaces_grow_within_the_judged_time() {
        let row = |time_ns, interface, copied| ZerocopySend {
            conn: 1,
            time_ns,
            interface,
            not_copied: 0,
            copied,
            unknown: 0,
        };
        let mut digest = ZerocopyDigest::default();
        for (time_ns, copied) in [(5, 3), (15, 10), (25, 90)] {
            digest.add(
                &row(time_ns, ZerocopyInterface::MsgZerocopy, copied),
                (10, 20),
            );
        }
        digest.add(&row(12, ZerocopyInterface::IoUring, 2), (10, 20));
        assert_eq!(digest.by_interface().map(|it| it.copied), [7, 2]);
        assert_eq!(digest.all_sends().count_known(), 9);
    }
}
