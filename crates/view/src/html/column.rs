//! One column of a table as bytes that a browser reads into a typed array.
//!
//! Three encodings: `whole` numbers as LEB128 of the zigzag difference to something near them plus one, 0 for
//! null; `real` numbers as 64-bit floats, little-endian, NaN for null; `word`, a number for each different text,
//! with the texts in the header. Ids of 64 bits are words, too: a browser's numbers have 53.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;
use serde::Serialize;
use table::Field;

/// Largest whole number that a browser holds exactly (`Number.MAX_SAFE_INTEGER`).
const SAFE: i64 = (1 << 53) - 1;

/// Column that no table has, with a cell for each row of the page.
pub type DerivedColumn = (&'static Field, CellKind, ColumnCells);

/// Base of the differences of whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaBase {
    /// Zero.
    Zero,
    /// The previous cell that is not null; for the first the recording's start.
    Previous,
    /// The same row of another column; if that is null, the recording's start.
    Column(&'static str),
}

/// Encoding of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// A time, in ns from the recording's start.
    Moment(DeltaBase),
    /// A number.
    Number,
    /// A word.
    Word,
}

/// Header of a column.
#[derive(Debug, Clone, Serialize)]
pub struct ColumnHead {
    /// Name in the table's declaration.
    pub name: &'static str,
    /// Description.
    pub doc: &'static str,
    /// Its unit; `-` for names.
    pub unit: &'static str,
    /// `whole`, `real` or `word`.
    pub encoding: &'static str,
    /// Base of differences: `zero`, `previous`, or a column's name.
    pub near: &'static str,
    /// Offset of its bytes, from the first column.
    pub at: usize,
    /// Returns the number of cells.
    pub bytes: usize,
    /// The words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

/// Cells of a column.
#[derive(Debug)]
pub enum ColumnCells {
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Real numbers.
    Real(Vec<Option<f64>>),
    /// Texts.
    Word(Vec<Option<String>>),
}

impl ColumnCells {
    /// Returns the cells of an Arrow array, of a type that tables have.
    pub fn from_array(array: &dyn Array, keep: CellKind) -> Self {
        let numbers = match array.data_type() {
            DataType::Utf8 => {
                let texts = array.as_string::<i32>().iter();
                return Self::Word(texts.map(|text| text.map(str::to_owned)).collect());
            }
            DataType::Boolean => {
                let flags = array.as_boolean().iter();
                return Self::Word(flags.map(|flag| flag.map(|it| it.to_string())).collect());
            }
            DataType::Float64 => {
                return Self::Real(array.as_primitive::<Float64Type>().iter().collect());
            }
            DataType::UInt8 => widen_cells(array.as_primitive::<UInt8Type>()),
            DataType::UInt16 => widen_cells(array.as_primitive::<UInt16Type>()),
            DataType::UInt32 => widen_cells(array.as_primitive::<UInt32Type>()),
            DataType::UInt64 => widen_cells(array.as_primitive::<UInt64Type>()),
            DataType::Int32 => widen_cells(array.as_primitive::<Int32Type>()),
            DataType::Int64 => widen_cells(array.as_primitive::<Int64Type>()),
            other => unreachable!("no table has cells of type {other}"),
        };
        Self::from_numbers(numbers, keep)
    }

    /// Makes the cells of whole numbers; reals if one does not fit into 64 bits.
    fn from_numbers(numbers: Vec<Option<i128>>, keep: CellKind) -> Self {
        if keep == CellKind::Word {
            let words = numbers
                .into_iter()
                .map(|it| it.map(|number| number.to_string()));
            return Self::Word(words.collect());
        }
        let whole =
            |it: &Option<i128>| it.map_or(Some(None), |it| i64::try_from(it).ok().map(Some));
        match numbers.iter().map(whole).collect() {
            Some(whole) => Self::Whole(whole),
            None => Self::Real(numbers.iter().map(|it| it.map(|it| it as f64)).collect()),
        }
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(cells) => cells.len(),
            Self::Real(cells) => cells.len(),
            Self::Word(cells) => cells.len(),
        }
    }

    /// Returns the cells of `rows`, in that order.
    pub fn select(self, rows: &[usize]) -> Self {
        /// Returns the cells of these rows.
        fn take_cells<T: Clone>(cells: &[Option<T>], rows: &[usize]) -> Vec<Option<T>> {
            rows.iter().map(|row| cells[*row].clone()).collect()
        }
        match self {
            Self::Whole(cells) => Self::Whole(take_cells(&cells, rows)),
            Self::Real(cells) => Self::Real(take_cells(&cells, rows)),
            Self::Word(cells) => Self::Word(take_cells(&cells, rows)),
        }
    }
}

/// Returns the cells of an array as numbers of 128 bits.
fn widen_cells<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Vec<Option<i128>>
where
    T::Native: Into<i128>,
{
    array.iter().map(|cell| cell.map(Into::into)).collect()
}

/// Returns whole numbers as differences. `None`: some are too large for a browser.
pub fn pack_whole(
    cells: &[Option<i64>],
    neighbours: impl Fn(usize) -> i64,
    out: &mut Vec<u8>,
) -> bool {
    let begin = out.len();
    for (row, cell) in cells.iter().enumerate() {
        let Some(value) = cell else {
            out.push(0);
            continue;
        };
        let Some(difference) = value.checked_sub(neighbours(row)) else {
            out.truncate(begin);
            return false;
        };
        if value.unsigned_abs() > SAFE as u64 || difference.unsigned_abs() > (SAFE / 2) as u64 {
            out.truncate(begin);
            return false;
        }
        let zigzag = (difference << 1 ^ difference >> 63) as u64;
        write_leb128(zigzag + 1, out);
    }
    true
}

/// Writes a number of variable length, seven bits a byte.
fn write_leb128(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends real numbers; an empty cell is NaN.
pub fn pack_real(cells: impl Iterator<Item = Option<f64>>, out: &mut Vec<u8>) {
    for cell in cells {
        out.extend(cell.unwrap_or(f64::NAN).to_le_bytes());
    }
}

/// Numbers of texts, in the order in which they come.
#[derive(Debug, Default)]
pub struct WordNumbers {
    numbers: HashMap<String, u64>,
}

impl WordNumbers {
    /// Appends texts as numbers of a list of words; 0 for an empty cell.
    pub fn put(&mut self, cells: Vec<Option<String>>, out: &mut Vec<u8>) {
        for cell in cells {
            let next = self.numbers.len() as u64 + 1;
            let number = cell.map_or(0, |text| *self.numbers.entry(text).or_insert(next));
            write_leb128(number, out);
        }
    }

    /// Returns the texts, by number.
    pub fn into_words(self) -> Vec<String> {
        let mut words: Vec<_> = self.numbers.into_iter().collect();
        words.sort_unstable_by_key(|(_, number)| *number);
        words.into_iter().map(|(text, _)| text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_delta_encoded() {
        let mut out = Vec::new();
        let cells = [Some(5), None, Some(4), Some(300)];
        assert!(pack_whole(&cells, |_| 5, &mut out));
        assert_eq!(out, [1, 0, 2, 0xcf, 0x04]);
    }

    #[test]
    fn unsafe_integers_are_refused() {
        let mut out = vec![7];
        assert!(!pack_whole(&[Some(0), Some(1 << 54)], |_| 0, &mut out));
        assert_eq!(out, [7]);
    }

    #[test]
    fn words_are_stored_once() {
        let mut out = Vec::new();
        let mut words = WordNumbers::default();
        for cell in [Some("b"), None, Some("a"), Some("b")] {
            words.put(vec![cell.map(str::to_owned)], &mut out);
        }
        assert_eq!(out, [1, 0, 2, 1]);
        assert_eq!(words.into_words(), ["b", "a"]);
    }
}
