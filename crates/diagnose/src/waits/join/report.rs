//! Calls and counters before slow and fast waits, as reports print them.

use serde::{Serialize, Serializer};

use super::association::{Association, FactorSide};
use super::factor::SideCounts;

/// Calls and counters before the waits of a group, slow ones beside fast ones.
#[derive(Debug, Clone, Serialize)]
pub struct Preceding {
    /// Waits blocked this long or longer are slow, ns.
    pub slow_from_ns: u64,
    /// Slow waits, as counted when they were joined.
    pub slow: u64,
    /// Fast waits, or with `longer_than_ns` those that only it leaves out.
    pub fast: u64,
    /// Values of counters that were not compared, because there are too many counters.
    pub counter_values_left_out: u64,
    /// Factors that were compared.
    pub factors: Vec<FactorReport>,
}

/// One number that went before waits.
#[derive(Debug, Clone, Serialize)]
pub struct FactorReport {
    /// Its kind and name.
    #[serde(flatten)]
    pub what: FactorKind,
    /// Slow waits that can have it: on a connection, for what is of a connection.
    pub slow_of: u64,
    /// Fast waits that can have it.
    pub fast_of: u64,
    /// Slow waits with a known value.
    pub slow_known: u64,
    /// Fast waits with a known value.
    pub fast_known: u64,
    /// Its values that slow waits go with; `None`: none beyond chance.
    pub association: Option<FactorAssociation>,
}

/// Kind of a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum FactorKind {
    /// Bytes of the last send on the connection.
    SendBytes,
    /// Bytes of the last receive on the connection.
    ReceiveBytes,
    /// Sends on the connection since the last receive.
    SendsSinceReceive,
    /// The last value of a counter that the thread set.
    Counter {
        /// Its domain.
        domain: Option<String>,
        /// Its name; `None`: lost.
        name: Option<String>,
        /// Unit of its values, in the program's words.
        unit: Option<String>,
        /// Whether the value is by how much it changed.
        change: bool,
    },
}

/// An association.
#[derive(Debug, Clone, Serialize)]
pub struct FactorAssociation {
    /// Whether slow waits go with `value` and less, or with `value` and more.
    pub side: &'static str,
    /// The value, one that occurred.
    #[serde(serialize_with = "serialize_plain")]
    pub value: f64,
    /// Slow waits with such a value.
    pub slow: u64,
    /// Fast waits with such a value.
    pub fast: u64,
    /// Chance of so uneven shares without an association, at most.
    pub chance: f64,
}

impl FactorAssociation {
    /// Returns whether slow waits go with small values.
    pub fn is_low(&self) -> bool {
        self.side == LOW
    }
}

const LOW: &str = "at_most";
const HIGH: &str = "at_least";

impl From<Association> for FactorAssociation {
    fn from(found: Association) -> Self {
        Self {
            side: match found.side {
                FactorSide::Low => LOW,
                FactorSide::High => HIGH,
            },
            value: found.value,
            slow: found.with.slow,
            fast: found.with.fast,
            chance: found.chance,
        }
    }
}

impl FactorReport {
    /// Makes the report of a factor.
    pub fn new(
        what: FactorKind,
        of: SideCounts,
        known: SideCounts,
        association: Option<Association>,
    ) -> Self {
        Self {
            what,
            slow_of: of.slow,
            fast_of: of.fast,
            slow_known: known.slow,
            fast_known: known.fast,
            association: association.map(Into::into),
        }
    }
}

/// Writes whole numbers without a fraction.
fn serialize_plain<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    /// Up to here a double holds every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return serializer.serialize_i64(*value as i64);
    }
    serializer.serialize_f64(*value)
}
