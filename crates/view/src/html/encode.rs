//! Columns of a table as bytes, made batch by batch: of a long table, only its bytes are in memory.

use std::collections::HashMap;

use table::Field;

use super::column::{
    self, CellKind, ColumnCells, ColumnHead, DeltaBase, DerivedColumn, WordNumbers,
};

/// Times of the rows of a batch, by column.
type BatchMoments = HashMap<&'static str, Vec<Option<i64>>>;

/// Meaning of real numbers in a column of whole ones that a browser does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RealBase {
    /// The numbers.
    Number,
    /// Times from the recording's start, where they are times.
    Start,
}

/// A column with cells that are to be real numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealColumn {
    name: &'static str,
    base: RealBase,
}

/// A table that is encoded.
#[derive(Debug)]
pub struct TableEncoder<'a> {
    started_ns: u64,
    reals: &'a [RealColumn],
    columns: Vec<ColumnEncoder>,
    rows: usize,
}

impl<'a> TableEncoder<'a> {
    /// Begins a table. `reals`: columns that were found to be real.
    pub fn new(started_ns: u64, reals: &'a [RealColumn]) -> Self {
        Self {
            started_ns,
            reals,
            columns: Vec::new(),
            rows: 0,
        }
    }

    /// Adds rows. The columns are the same in each call.
    ///
    /// # Errors
    /// The column that is real by these rows, and was not by those before: the table is to be encoded again, with it in `reals`.
    pub fn push(&mut self, cells: impl Iterator<Item = DerivedColumn>) -> Result<(), RealColumn> {
        let mut moments = BatchMoments::new();
        let mut rows = 0;
        for (at, (field, keep, cells)) in cells.enumerate() {
            if at == self.columns.len() {
                let real = self.reals.iter().rfind(|it| it.name == field.name);
                self.columns
                    .push(ColumnEncoder::new(field, keep, real.copied()));
            }
            rows = cells.len();
            self.columns[at].push(cells, self.started_ns, &mut moments)?;
        }
        self.rows += rows;
        Ok(())
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds the bytes to those of other tables.
    pub fn finish(self, out: &mut Vec<u8>) -> Vec<ColumnHead> {
        let columns = self.columns.into_iter();
        columns.map(|column| column.finish(out)).collect()
    }
}

/// Encoding of a column, as its cells decide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnForm {
    Whole,
    Word,
    Real(RealBase),
}

#[derive(Debug)]
struct ColumnEncoder {
    field: &'static Field,
    near: DeltaBase,
    is_moment: bool,
    form: ColumnForm,
    cells: usize,
    /// The last cell that is not null.
    last: i64,
    words: WordNumbers,
    bytes: Vec<u8>,
}

impl ColumnEncoder {
    /// Begins a column; `real` if an earlier try found that it needs reals.
    fn new(field: &'static Field, keep: CellKind, real: Option<RealColumn>) -> Self {
        let near = match keep {
            CellKind::Moment(near) => near,
            _ => DeltaBase::Zero,
        };
        Self {
            field,
            near,
            is_moment: matches!(keep, CellKind::Moment(_)),
            form: real.map_or(ColumnForm::Whole, |real| ColumnForm::Real(real.base)),
            cells: 0,
            last: 0,
            words: WordNumbers::default(),
            bytes: Vec::new(),
        }
    }

    /// Adds cells; an error if they need reals and earlier ones were whole.
    fn push(
        &mut self,
        cells: ColumnCells,
        started_ns: u64,
        moments: &mut BatchMoments,
    ) -> Result<(), RealColumn> {
        let rows = cells.len();
        match cells {
            ColumnCells::Word(cells) => {
                self.form = ColumnForm::Word;
                self.words.put(cells, &mut self.bytes);
            }
            ColumnCells::Real(cells) => {
                self.become_real(RealBase::Number)?;
                column::pack_real(cells.into_iter(), &mut self.bytes);
            }
            ColumnCells::Whole(cells) if self.form == ColumnForm::Real(RealBase::Number) => {
                self.put_real(&cells);
            }
            ColumnCells::Whole(cells) => {
                let cells = self.count_from_start(cells, started_ns);
                let near = self.near_cells(&cells, moments);
                let is_whole = self.form == ColumnForm::Whole
                    && column::pack_whole(&cells, |row| near[row], &mut self.bytes);
                if !is_whole {
                    self.become_real(RealBase::Start)?;
                    self.put_real(&cells);
                }
                moments.insert(self.field.name, cells);
            }
        }
        self.cells += rows;
        Ok(())
    }

    /// Writes whole numbers as reals.
    fn put_real(&mut self, cells: &[Option<i64>]) {
        let cells = cells.iter().map(|it| it.map(|it| it as f64));
        column::pack_real(cells, &mut self.bytes);
    }

    /// Makes the column one of reals; an error if it has whole cells already.
    fn become_real(&mut self, base: RealBase) -> Result<(), RealColumn> {
        let form = ColumnForm::Real(base);
        if self.form != form && self.cells > 0 {
            let name = self.field.name;
            return Err(RealColumn { name, base });
        }
        self.form = form;
        Ok(())
    }

    /// Converts times to times since the recording's start; other numbers stay.
    fn count_from_start(&self, cells: Vec<Option<i64>>, started_ns: u64) -> Vec<Option<i64>> {
        if !self.is_moment {
            return cells;
        }
        let since = |ns: i64| ns.wrapping_sub_unsigned(started_ns);
        cells.into_iter().map(|it| it.map(since)).collect()
    }

    /// Returns the base of each cell's difference.
    fn near_cells(&mut self, cells: &[Option<i64>], moments: &BatchMoments) -> Vec<i64> {
        match self.near {
            DeltaBase::Zero => vec![0; cells.len()],
            DeltaBase::Previous => {
                let previous = cells.iter().map(|cell| {
                    let before = self.last;
                    self.last = cell.unwrap_or(before);
                    before
                });
                previous.collect()
            }
            DeltaBase::Column(name) => {
                let other = moments.get(name).expect("it comes before in the list");
                other.iter().map(|cell| cell.unwrap_or(0)).collect()
            }
        }
    }

    /// Ends the column: appends its bytes to `out`, and returns its description.
    fn finish(self, out: &mut Vec<u8>) -> ColumnHead {
        let (encoding, near) = match (self.form, self.near) {
            (ColumnForm::Word, _) => ("word", "zero"),
            (ColumnForm::Real(_), _) => ("real", "zero"),
            (ColumnForm::Whole, DeltaBase::Zero) => ("whole", "zero"),
            (ColumnForm::Whole, DeltaBase::Previous) => ("whole", "previous"),
            (ColumnForm::Whole, DeltaBase::Column(name)) => ("whole", name),
        };
        let at = out.len();
        out.extend_from_slice(&self.bytes);
        ColumnHead {
            name: self.field.name,
            doc: self.field.doc,
            unit: self.field.unit,
            encoding,
            near,
            at,
            bytes: self.bytes.len(),
            words: self.words.into_words(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Field = Field {
        name: "begin_ns",
        doc: "",
        unit: "ns",
        null: "",
    };
    const END: Field = Field {
        name: "end_ns",
        ..BEGIN
    };

    /// Encodes rows of begin and end, `at_once` at a time.
    fn encode(rows: &[(i64, i64)], at_once: usize) -> (Vec<&'static str>, Vec<u8>) {
        let mut reals = Vec::new();
        loop {
            let mut table = TableEncoder::new(1_000, &reals);
            let pushed = rows.chunks(at_once).try_for_each(|rows| {
                let begin = rows.iter().map(|row| Some(row.0)).collect();
                let end = rows.iter().map(|row| Some(row.1)).collect();
                let previous = CellKind::Moment(DeltaBase::Previous);
                let after = CellKind::Moment(DeltaBase::Column("begin_ns"));
                let cells = [
                    (&BEGIN, previous, ColumnCells::Whole(begin)),
                    (&END, after, ColumnCells::Whole(end)),
                ];
                table.push(cells.into_iter())
            });
            let Err(real) = pushed else {
                let mut out = Vec::new();
                let heads = table.finish(&mut out);
                return (heads.iter().map(|it| it.encoding).collect(), out);
            };
            reals.push(real);
        }
    }

    #[test]
    fn batches_change_no_byte() {
        let rows: Vec<_> = (0..11)
            .map(|row| (1_000 + 7 * row, 1_003 + 8 * row))
            .collect();
        let whole = encode(&rows, 11);
        assert_eq!(whole.0, ["whole", "whole"]);
        assert_eq!(encode(&rows, 1), whole);
        assert_eq!(encode(&rows, 4), whole);
    }

    #[test]
    fn unsafe_integer_in_a_later_batch_makes_all_real() {
        let rows = [(1_005, 1_006), (1_007, 1 << 60), (1_009, 1_010)];
        let whole = encode(&rows, 3);
        assert_eq!(whole.0, ["whole", "real"]);
        assert_eq!(whole.1.len(), rows.len() * (1 + size_of::<f64>()));
        assert_eq!(encode(&rows, 1), whole);
    }
}
