//! Counters that programs keep by the ITT API, distinguished by what people call them.

use table::CounterKind;
use table::tables::Counters;

/// Counters that are compared: each wait is compared with all of its thread's.
const MOST: usize = 64;

/// One counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterName {
    /// Its domain.
    pub domain: Option<String>,
    /// Its name; `None`: lost.
    pub name: Option<String>,
    /// Distinguishes those with lost names.
    id: Option<u32>,
    /// Unit of its values.
    pub unit: Option<String>,
    /// Whether a value is by how much it changed, instead of what it is.
    pub is_change: bool,
}

/// All counters, by number.
#[derive(Debug, Default)]
pub struct CounterNames {
    counters: Vec<CounterName>,
    /// Values of counters beyond [`MOST`].
    pub left_out: u64,
}

impl CounterNames {
    /// Returns the number of a row's counter; `None`: there are too many counters.
    pub fn number(&mut self, rows: &Counters, row: usize) -> Option<u16> {
        let is_change = rows.kind[row] != CounterKind::Set;
        let (domain, name) = (&rows.domain[row], &rows.name[row]);
        let id = rows.counter[row].filter(|_| name.is_none());
        let known = self.counters.iter().position(|it| {
            it.is_change == is_change && it.id == id && it.name == *name && it.domain == *domain
        });
        if known.is_none() && self.counters.len() == MOST {
            self.left_out += 1;
            return None;
        }
        let number = known.unwrap_or_else(|| {
            self.counters.push(CounterName {
                domain: domain.clone(),
                name: name.clone(),
                id,
                unit: rows.unit[row].clone(),
                is_change,
            });
            self.counters.len() - 1
        });
        Some(number as u16)
    }

    /// Returns the counter with this number.
    pub fn get(&self, number: u16) -> &CounterName {
        &self.counters[usize::from(number)]
    }
}

/// Returns the value of a row, or by how much it changed the counter; `None` without one.
pub fn value(rows: &Counters, row: usize) -> Option<f64> {
    let unsigned = rows.value_u64[row].map(|value| value as f64);
    let signed = rows.value_s64[row].map(|value| value as f64);
    let value = rows.value_f64[row].or(unsigned).or(signed)?;
    Some(match rows.kind[row] {
        CounterKind::Set | CounterKind::Increment => value,
        CounterKind::Decrement => -value,
    })
}
