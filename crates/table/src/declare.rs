//! The `table!` macro: a table is declared once, as a row struct with a documented
//! field a line, and everything else follows from that declaration: the typed
//! columns, the Arrow schema, reading and writing batches, and the reference page.
//!
//! A column keeps its cells as `Vec<T>` while it is filled, because a plain push is
//! what the recorder can afford a million times a second; Arrow arrays are made only
//! when a batch leaves.

use std::sync::Arc;

#[doc(hidden)]
pub use arrow_array::RecordBatch;
use arrow_array::types::{
    Float64Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, StringArray};
#[doc(hidden)]
pub use arrow_schema::SchemaRef;
use arrow_schema::{DataType, Field as ArrowField, Schema};
#[doc(hidden)]
pub use parquet::basic::Encoding;
#[doc(hidden)]
pub use parquet::errors::ParquetError;

use crate::encode::FixedWidth;
#[doc(hidden)]
pub use crate::encode::{PageBody, RowGroup};

/// Describes one field for the reference page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Column name, the same in Rust, Arrow and Parquet.
    pub name: &'static str,
    /// Meaning of the value.
    pub doc: &'static str,
    /// Unit of the value, or `-` for names and identifiers.
    pub unit: &'static str,
    /// Meaning of an absent value; empty for a column that is never null.
    pub null: &'static str,
}

/// Value of a cell, for formats that have no types of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Null.
    Absent,
    /// A whole number that is never negative.
    Unsigned(u64),
    /// A whole number.
    Signed(i64),
    /// A floating-point number.
    Real(f64),
    /// Yes or no.
    Is(bool),
    /// Text, or a name of a closed set.
    Text(&'a str),
}

/// A batch that does not have the shape its table declares.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ShapeError {
    /// A column that may not be null is not in the batch at all.
    #[error("table {table}: column {column} is missing")]
    Missing {
        /// The table with the broken declaration.
        table: &'static str,
        /// The absent column.
        column: &'static str,
    },
    /// A column has another type, or nulls where none may be.
    #[error("table {table}: column {column} is {found}, expected {expected}")]
    Type {
        /// The table with the broken declaration.
        table: &'static str,
        /// The offending column.
        column: &'static str,
        /// The type in the batch.
        found: String,
        /// The type of the declaration.
        expected: String,
    },
}

/// One row of a declared table.
pub trait Table: Sized + Clone {
    /// Name of the table, of its directory in a recording and of its reference section.
    const NAME: &'static str;
    /// Meaning of a row.
    const DOC: &'static str;
    /// The columns in order.
    const FIELDS: &'static [Field];
    /// The column that is a row's position on the time axis.
    const TIME: &'static str;
    /// The typed columns of this table.
    type Columns: Columns<Row = Self>;
    /// Returns the row's time: `CLOCK_MONOTONIC` ns in a recording, time of day in a fleet's table.
    fn time_ns(&self) -> u64;
}

/// The columns of a declared table.
pub trait Columns: Default + Send + 'static {
    /// The row type these columns hold.
    type Row: Table<Columns = Self>;
    /// Appends a row.
    fn push(&mut self, row: Self::Row);
    /// Returns the row at `index`; panics past the end, as slices do.
    fn row(&self, index: usize) -> Self::Row;
    /// Calls `take` for each cell of the row at `index`, in the order of the columns. Panics past
    /// the end.
    fn for_each_value(&self, index: usize, take: impl FnMut(Value<'_>));
    /// Reserves memory for `rows` more rows.
    fn reserve(&mut self, rows: usize);
    /// Moves all rows of `other` to the end of these.
    fn append(&mut self, other: Self);
    /// Encodes these rows as one page of each column of `group`.
    #[doc(hidden)]
    fn encode(
        &self,
        rows: std::ops::Range<usize>,
        group: &mut RowGroup,
    ) -> Result<(), ParquetError>;
    /// Returns the Parquet encoding of each column in an open segment.
    #[doc(hidden)]
    fn encodings() -> Vec<Encoding>;
    /// Returns the number of rows.
    fn len(&self) -> usize;
    /// Returns whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the declared Arrow schema.
    fn schema() -> SchemaRef;
    /// Converts the columns to an Arrow batch.
    fn into_batch(self) -> RecordBatch;
    /// Takes the columns out of an Arrow batch. A nullable column that the batch
    /// does not have (an older recording) is all null; columns unknown to us are ignored.
    fn from_batch(batch: &RecordBatch) -> Result<Self, ShapeError>;
    /// Returns first and last time of the rows, ns; `None` without rows.
    fn time_range_ns(&self) -> Option<(u64, u64)>;
}

/// A value that can be the time of a row.
#[doc(hidden)]
pub trait Instant: Copy {
    /// Returns nanoseconds; a time before 1970 counts as 1970.
    fn ns(self) -> u64;
}

impl Instant for u64 {
    fn ns(self) -> u64 {
        self
    }
}

impl Instant for i64 {
    /// Returns nanoseconds; a time before 1970 counts as 1970.
    fn ns(self) -> u64 {
        self.max(0).cast_unsigned()
    }
}

/// A value that a column can hold.
pub trait Cell: Sized + Clone {
    /// Returns the Arrow type of the column.
    fn data_type() -> DataType;
    /// Whether the column may hold nulls.
    const NULLABLE: bool;
    /// How an open segment encodes these cells.
    const ENCODING: Encoding;
    /// Returns the value of the cell.
    fn value(&self) -> Value<'_>;
    /// Makes these cells the body of a data page.
    fn encode(cells: &[Self], page: &mut PageBody);
    /// The Arrow array of these cells.
    fn to_array(cells: Vec<Self>) -> ArrayRef;
    /// The cells of an Arrow array; `None` if it has another type or forbidden nulls.
    fn from_array(array: &dyn Array) -> Option<Vec<Self>>;
    /// Returns cells for a column that an older recording does not have; `None` if it must have the
    /// column.
    fn absent(rows: usize) -> Option<Vec<Self>> {
        let _ = rows;
        None
    }
}

macro_rules! primitive_cell {
    ($($native:ty => $arrow:ty, $value:ident);+ $(;)?) => {$(
        impl Cell for $native {
            fn data_type() -> DataType {
                <$arrow as arrow_array::types::ArrowPrimitiveType>::DATA_TYPE
            }
            const NULLABLE: bool = false;
            const ENCODING: Encoding = <$native as FixedWidth>::ENCODING;
            fn value(&self) -> Value<'_> {
                Value::$value((*self).into())
            }
            fn encode(cells: &[Self], page: &mut PageBody) {
                <$native as FixedWidth>::encode(cells, page);
            }
            fn to_array(cells: Vec<Self>) -> ArrayRef {
                Arc::new(PrimitiveArray::<$arrow>::new(cells.into(), None))
            }
            fn from_array(array: &dyn Array) -> Option<Vec<Self>> {
                let array = array.as_any().downcast_ref::<PrimitiveArray<$arrow>>()?;
                (array.null_count() == 0).then(|| array.values().to_vec())
            }
        }
        impl Cell for Option<$native> {
            fn data_type() -> DataType {
                <$native as Cell>::data_type()
            }
            const NULLABLE: bool = true;
            const ENCODING: Encoding = <$native as FixedWidth>::ENCODING;
            fn value(&self) -> Value<'_> {
                self.as_ref().map_or(Value::Absent, Cell::value)
            }
            fn encode(cells: &[Self], page: &mut PageBody) {
                <$native as FixedWidth>::encode_optional(cells, page);
            }
            fn to_array(cells: Vec<Self>) -> ArrayRef {
                Arc::new(PrimitiveArray::<$arrow>::from(cells))
            }
            fn from_array(array: &dyn Array) -> Option<Vec<Self>> {
                let array = array.as_any().downcast_ref::<PrimitiveArray<$arrow>>()?;
                Some(array.iter().collect())
            }
            fn absent(rows: usize) -> Option<Vec<Self>> {
                Some(vec![None; rows])
            }
        }
    )+};
}

primitive_cell! {
    u8 => UInt8Type, Unsigned;
    u16 => UInt16Type, Unsigned;
    u32 => UInt32Type, Unsigned;
    u64 => UInt64Type, Unsigned;
    i32 => Int32Type, Signed;
    i64 => Int64Type, Signed;
    f64 => Float64Type, Real;
}

impl Cell for bool {
    fn data_type() -> DataType {
        DataType::Boolean
    }
    const NULLABLE: bool = false;
    const ENCODING: Encoding = Encoding::PLAIN;
    fn value(&self) -> Value<'_> {
        Value::Is(*self)
    }
    fn encode(cells: &[Self], page: &mut PageBody) {
        page.bools(cells);
    }
    fn to_array(cells: Vec<Self>) -> ArrayRef {
        Arc::new(BooleanArray::from(cells))
    }
    fn from_array(array: &dyn Array) -> Option<Vec<Self>> {
        let array = array.as_any().downcast_ref::<BooleanArray>()?;
        array.iter().collect()
    }
}

impl Cell for Option<bool> {
    fn data_type() -> DataType {
        DataType::Boolean
    }
    const NULLABLE: bool = true;
    const ENCODING: Encoding = Encoding::PLAIN;
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Absent, Cell::value)
    }
    fn encode(cells: &[Self], page: &mut PageBody) {
        page.levels_of(cells);
        let present: Vec<bool> = cells.iter().copied().flatten().collect();
        page.bools(&present);
    }
    fn to_array(cells: Vec<Self>) -> ArrayRef {
        Arc::new(BooleanArray::from(cells))
    }
    fn from_array(array: &dyn Array) -> Option<Vec<Self>> {
        let array = array.as_any().downcast_ref::<BooleanArray>()?;
        Some(array.iter().collect())
    }
    fn absent(rows: usize) -> Option<Vec<Self>> {
        Some(vec![None; rows])
    }
}

impl Cell for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    const NULLABLE: bool = false;
    const ENCODING: Encoding = Encoding::DELTA_BYTE_ARRAY;
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
    fn encode(cells: &[Self], page: &mut PageBody) {
        page.strings(cells.iter().map(String::as_str));
    }
    fn to_array(cells: Vec<Self>) -> ArrayRef {
        Arc::new(StringArray::from(cells))
    }
    fn from_array(array: &dyn Array) -> Option<Vec<Self>> {
        let array = array.as_any().downcast_ref::<StringArray>()?;
        array.iter().map(|cell| cell.map(str::to_owned)).collect()
    }
}

impl Cell for Option<String> {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    const NULLABLE: bool = true;
    const ENCODING: Encoding = Encoding::DELTA_BYTE_ARRAY;
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Absent, Cell::value)
    }
    fn encode(cells: &[Self], page: &mut PageBody) {
        page.levels_of(cells);
        page.strings(cells.iter().flatten().map(String::as_str));
    }
    fn to_array(cells: Vec<Self>) -> ArrayRef {
        Arc::new(StringArray::from(cells))
    }
    fn from_array(array: &dyn Array) -> Option<Vec<Self>> {
        let array = array.as_any().downcast_ref::<StringArray>()?;
        Some(array.iter().map(|cell| cell.map(str::to_owned)).collect())
    }
    fn absent(rows: usize) -> Option<Vec<Self>> {
        Some(vec![None; rows])
    }
}

// What a table does with one of its columns. It is compiled once for each type of cells: inlined, it would be compiled
// again for each column of each table.

/// Adds the Arrow field of a column.
#[doc(hidden)]
#[inline(never)]
pub fn add_field<C: Cell>(fields: &mut Vec<ArrowField>, name: &str) {
    fields.push(ArrowField::new(name, C::data_type(), C::NULLABLE));
}

/// Moves cells to the end of `arrays`.
#[doc(hidden)]
#[inline(never)]
pub fn add_array<C: Cell>(arrays: &mut Vec<ArrayRef>, cells: &mut Vec<C>) {
    arrays.push(C::to_array(std::mem::take(cells)));
}

/// Encodes cells as the page of the next column.
///
/// # Errors
/// When the group has no such column, or it cannot be compressed.
#[doc(hidden)]
#[inline(never)]
pub fn encode_column<C: Cell>(cells: &[C], group: &mut RowGroup) -> Result<(), ParquetError> {
    group.column(|page| C::encode(cells, page))
}

/// Replaces cells by one column of a batch.
///
/// # Errors
/// When the batch has no such column, or it has another type.
#[doc(hidden)]
#[inline(never)]
pub fn read_column<C: Cell>(
    cells: &mut Vec<C>,
    batch: &RecordBatch,
    table: &'static str,
    column: &'static str,
) -> Result<(), ShapeError> {
    *cells = take_column(batch, table, column)?;
    Ok(())
}

/// Builds the schema of a table.
#[doc(hidden)]
pub fn arrow_schema(fields: Vec<ArrowField>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

/// Reads one column of a batch.
fn take_column<C: Cell>(
    batch: &RecordBatch,
    table: &'static str,
    column: &'static str,
) -> Result<Vec<C>, ShapeError> {
    let Some(array) = batch.column_by_name(column) else {
        return C::absent(batch.num_rows()).ok_or(ShapeError::Missing { table, column });
    };
    C::from_array(array.as_ref()).ok_or_else(|| ShapeError::Type {
        table,
        column,
        found: format!("{} with {} nulls", array.data_type(), array.null_count()),
        expected: format!(
            "{}{}",
            C::data_type(),
            if C::NULLABLE { "" } else { " without nulls" }
        ),
    })
}

/// Declares a table: `row`, `columns`, name, the field that is its time, and each
/// field as `name: type, "unit"` with a doc comment; an optional field adds
/// `, null = "what absence means"`.
#[macro_export]
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        row $row:ident, columns $columns:ident, name $name:literal, time $time:ident {
            $(
                $(#[doc = $field_doc:literal])+
                $field:ident: $type:ty, $unit:literal $(, null = $null:literal)?;
            )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $row {
            $(
                $(#[doc = $field_doc])+
                pub $field: $type,
            )+
        }

        #[doc = concat!("The columns of table `", $name, "`.")]
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $columns {
            $(
                $(#[doc = $field_doc])+
                pub $field: Vec<$type>,
            )+
        }

        impl $crate::Table for $row {
            const NAME: &'static str = $name;
            const DOC: &'static str = concat!($($doc, "\n"),+);
            const FIELDS: &'static [$crate::Field] = &[
                $($crate::Field {
                    name: stringify!($field),
                    doc: concat!($($field_doc, "\n"),+),
                    unit: $unit,
                    null: concat!($($null)?),
                }),+
            ];
            const TIME: &'static str = stringify!($time);
            type Columns = $columns;
            fn time_ns(&self) -> u64 {
                $crate::declare::Instant::ns(self.$time)
            }
        }

        impl $crate::Columns for $columns {
            type Row = $row;
            fn push(&mut self, row: $row) {
                let $row { $($field),+ } = row;
                $(self.$field.push($field);)+
            }
            fn row(&self, index: usize) -> $row {
                $row { $($field: self.$field[index].clone()),+ }
            }
            fn for_each_value(&self, index: usize, mut take: impl FnMut($crate::Value<'_>)) {
                $(take($crate::declare::Cell::value(&self.$field[index]));)+
            }
            fn reserve(&mut self, rows: usize) {
                $(self.$field.reserve(rows);)+
            }
            fn append(&mut self, mut other: Self) {
                $(self.$field.append(&mut other.$field);)+
            }
            fn encode(
                &self,
                rows: std::ops::Range<usize>,
                group: &mut $crate::declare::RowGroup,
            ) -> Result<(), $crate::declare::ParquetError> {
                group.begin(rows.len());
                $($crate::declare::encode_column(&self.$field[rows.clone()], group)?;)+
                Ok(())
            }
            fn encodings() -> Vec<$crate::declare::Encoding> {
                vec![$(<$type as $crate::declare::Cell>::ENCODING),+]
            }
            fn len(&self) -> usize {
                self.$time.len()
            }
            fn schema() -> $crate::declare::SchemaRef {
                let mut fields = Vec::with_capacity(<$row as $crate::Table>::FIELDS.len());
                $($crate::declare::add_field::<$type>(&mut fields, stringify!($field));)+
                $crate::declare::arrow_schema(fields)
            }
            fn into_batch(mut self) -> $crate::declare::RecordBatch {
                let mut arrays = Vec::with_capacity(<$row as $crate::Table>::FIELDS.len());
                $($crate::declare::add_array(&mut arrays, &mut self.$field);)+
                $crate::declare::RecordBatch::try_new(Self::schema(), arrays)
                    .expect("every column is built from the same rows and its own type")
            }
            fn from_batch(
                batch: &$crate::declare::RecordBatch,
            ) -> Result<Self, $crate::ShapeError> {
                let mut columns = Self::default();
                $(
                    let cells = &mut columns.$field;
                    $crate::declare::read_column(cells, batch, $name, stringify!($field))?;
                )+
                Ok(columns)
            }
            fn time_range_ns(&self) -> Option<(u64, u64)> {
                let ns = $crate::declare::Instant::ns;
                Some((ns(*self.$time.iter().min()?), ns(*self.$time.iter().max()?)))
            }
        }
    };
}
