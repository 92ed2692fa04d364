//! Some rows of a table as CSV: some columns, rows that fulfil conditions, and not more than fit.

use std::cmp::Ordering;

use table::{Columns, Field, Recording, Table, Value, for_each_table};

use crate::csv::{CsvText, Line};

/// Declares a table: its meaning and its columns.
#[derive(Debug, Clone, Copy)]
pub struct TableDeclaration {
    /// Meaning of a row.
    pub doc: &'static str,
    /// Columns in order.
    pub fields: &'static [Field],
}

/// Returns the declaration of a table; `None`: this whylat does not know it.
pub fn find_declaration(table: &str) -> Option<TableDeclaration> {
    macro_rules! dispatch {
        ($($row:ty),+ $(,)?) => {
            match table {
                $(<$row as Table>::NAME => Some(TableDeclaration {
                    doc: <$row as Table>::DOC,
                    fields: <$row as Table>::FIELDS,
                }),)+
                _ => None,
            }
        };
    }
    for_each_table!(dispatch)
}

/// Holds a value that cells are compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// Null.
    Absent,
    /// Yes or no.
    Is(bool),
    /// A whole number: those of cells have up to 64 bits, with a sign or without.
    Whole(i128),
    /// A number with a fraction.
    Real(f64),
    /// Text.
    Text(String),
}

impl Operand {
    /// Compares a cell with the operand; `None`: they cannot be compared.
    fn compare(&self, cell: Value<'_>) -> Option<Ordering> {
        match (cell, self) {
            (Value::Absent, Self::Absent) => Some(Ordering::Equal),
            (Value::Is(cell), Self::Is(operand)) => Some(cell.cmp(operand)),
            (Value::Text(cell), Self::Text(operand)) => Some(cell.cmp(operand)),
            (Value::Unsigned(cell), Self::Whole(operand)) => Some(i128::from(cell).cmp(operand)),
            (Value::Signed(cell), Self::Whole(operand)) => Some(i128::from(cell).cmp(operand)),
            (Value::Real(cell), Self::Whole(operand)) => cell.partial_cmp(&(*operand as f64)),
            (Value::Unsigned(cell), Self::Real(operand)) => (cell as f64).partial_cmp(operand),
            (Value::Signed(cell), Self::Real(operand)) => (cell as f64).partial_cmp(operand),
            (Value::Real(cell), Self::Real(operand)) => cell.partial_cmp(operand),
            _ => None,
        }
    }
}

/// Tests a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum CellTest {
    /// It has this value.
    Equals(Operand),
    /// It is this value or more.
    AtLeast(Operand),
    /// It is less than this value.
    Below(Operand),
}

impl CellTest {
    /// Returns whether a cell passes the test.
    fn matches_cell(&self, cell: Value<'_>) -> bool {
        match self {
            Self::Equals(operand) => operand.compare(cell) == Some(Ordering::Equal),
            Self::AtLeast(operand) => operand.compare(cell).is_some_and(Ordering::is_ge),
            Self::Below(operand) => operand.compare(cell) == Some(Ordering::Less),
        }
    }
}

/// Demands that a cell of each row passes a test.
#[derive(Debug, Clone, PartialEq)]
pub struct RowCondition {
    /// Index of the column.
    pub column: usize,
    /// Its test.
    pub test: CellTest,
}

/// Selects rows of a table.
#[derive(Debug, Clone, Default)]
pub struct RowSelection {
    /// Indices of the columns to write, in this order.
    pub columns: Vec<usize>,
    /// Conditions that a row fulfils, all of them.
    pub conditions: Vec<RowCondition>,
    /// Rows of the table to pass over first.
    pub skip: u64,
    /// Rows to write, at most.
    pub max_rows: u64,
    /// Bytes of text after which no further row begins.
    pub max_bytes: usize,
}

/// Holds rows as CSV, and where to go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectedRows {
    /// A line of column names, then a line a row. Text is cleaned.
    pub csv: String,
    /// How many rows.
    pub rows: u64,
    /// `skip` of the next selection; `None`: no further row fulfils the conditions.
    pub next: Option<u64>,
}

/// Returns selected rows of a table as CSV; none of an unknown table.
pub fn selected_csv(recording: &Recording, table: &str, selection: &RowSelection) -> SelectedRows {
    macro_rules! dispatch {
        ($($row:ty),+ $(,)?) => {
            match table {
                $(<$row as Table>::NAME => select::<$row>(recording, selection),)+
                _ => SelectedRows::default(),
            }
        };
    }
    for_each_table!(dispatch)
}

/// Returns the rows that pass all conditions as CSV, up to the limit.
fn select<T: Table>(recording: &Recording, selection: &RowSelection) -> SelectedRows {
    let (mut line, mut out) = (Line::new(CsvText::Clean), Vec::new());
    for column in &selection.columns {
        line.add(Value::Text(T::FIELDS[*column].name));
    }
    line.end(&mut out).expect("memory takes everything");
    let mut selected = SelectedRows::default();
    let mut place = 0;
    'table: for columns in recording.batches::<T>() {
        for row in 0..columns.len() {
            place += 1;
            if place <= selection.skip || !is_selected(&columns, row, &selection.conditions) {
                continue;
            }
            if selected.rows == selection.max_rows || out.len() >= selection.max_bytes {
                selected.next = Some(place - 1);
                break 'table;
            }
            add_row(&columns, row, &selection.columns, &mut line);
            line.end(&mut out).expect("memory takes everything");
            selected.rows += 1;
        }
    }
    selected.csv = String::from_utf8_lossy(&out).into_owned();
    selected
}

/// Returns whether a row passes all conditions.
fn is_selected(columns: &impl Columns, row: usize, conditions: &[RowCondition]) -> bool {
    if conditions.is_empty() {
        return true;
    }
    let (mut passed, mut column) = (0, 0);
    columns.for_each_value(row, |value| {
        let of_column = conditions.iter().filter(|it| it.column == column);
        passed += of_column.filter(|it| it.test.matches_cell(value)).count();
        column += 1;
    });
    passed == conditions.len()
}

/// Adds the wanted columns of a row to the line.
fn add_row(columns: &impl Columns, row: usize, wanted: &[usize], line: &mut Line) {
    for place in wanted {
        let mut column = 0;
        columns.for_each_value(row, |value| {
            if column == *place {
                line.add(value);
            }
            column += 1;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_pass_tests_of_their_type() {
        let whole = Operand::Whole;
        let text = |text: &str| Operand::Text(text.to_owned());
        let cases = [
            (CellTest::Equals(whole(7)), Value::Unsigned(7), true),
            (CellTest::Equals(whole(7)), Value::Text("7"), false),
            (CellTest::Equals(Operand::Absent), Value::Absent, true),
            (CellTest::Equals(Operand::Absent), Value::Unsigned(0), false),
            (CellTest::AtLeast(whole(-3)), Value::Signed(-3), true),
            (CellTest::Below(whole(-3)), Value::Signed(-3), false),
            (CellTest::AtLeast(whole(0)), Value::Absent, false),
            (
                CellTest::Below(Operand::Real(0.5)),
                Value::Unsigned(0),
                true,
            ),
            (CellTest::Equals(Operand::Is(true)), Value::Is(true), true),
            (CellTest::Equals(text("redis")), Value::Text("redis"), true),
            (
                CellTest::AtLeast(whole(i128::from(u64::MAX))),
                Value::Unsigned(u64::MAX - 1),
                false,
            ),
        ];
        for (test, cell, passes) in cases {
            assert_eq!(test.matches_cell(cell), passes, "{test:?} {cell:?}");
        }
    }
}
