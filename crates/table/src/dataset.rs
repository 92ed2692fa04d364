//! Files of a fleet's dataset (`docs/fleet/dataset.md`): rows in, the bytes of a Parquet file out, and back; and the
//! files of an hour's minutes merged into one, with at most two of them in memory.
//!
//! The same rows always make the same bytes, so that a file that is sent twice is the same file.

use std::fs::File;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::statistics::Statistics;

use crate::decode::{catch_panics, check};
use crate::fleet::{
    FLEET_SCHEMA, FLEET_SCHEMA_KEY, FleetConnection, FleetCoverage, FleetDetail, FleetInterval,
    FleetProblem,
};
use crate::{Columns, Problem, Table};

/// Key of the number of rows in a file's metadata.
const ROWS_KEY: &str = "whylat.rows";
/// Key of the host's name.
const HOST_KEY: &str = "whylat.host";
/// Rows in a row group: a group is what an engine skips by its times, and what writing holds in memory.
const GROUP_ROWS: usize = 64 << 10;
/// Rows that are decoded at once.
const BATCH_ROWS: usize = 16 << 10;
/// zstd's own default level: files live longer than the second that they take.
const ZSTD_LEVEL: i32 = 3;

/// A row of a dataset.
pub trait FleetRow: Table {
    /// Returns the connection of the row; 0 without one.
    fn conn_id(&self) -> i64;
}

macro_rules! of_a_connection {
    ($($row:ty),+) => {$(
        impl FleetRow for $row {
            fn conn_id(&self) -> i64 {
                self.conn_id
            }
        }
    )+};
}
of_a_connection!(FleetProblem, FleetInterval, FleetConnection, FleetDetail);

impl FleetRow for FleetCoverage {
    fn conn_id(&self) -> i64 {
        0
    }
}

/// Sorts rows by time, then by connection; equal rows keep their order.
pub fn sort_rows<C: Columns>(rows: &C) -> C
where
    C::Row: FleetRow,
{
    let mut list: Vec<C::Row> = (0..rows.len()).map(|index| rows.row(index)).collect();
    list.sort_by_key(|row| (row.time_ns(), row.conn_id()));
    let mut sorted = C::default();
    sorted.reserve(list.len());
    list.into_iter().for_each(|row| sorted.push(row));
    sorted
}

/// The file of these rows, which are sorted first.
///
/// # Errors
/// When the Parquet writer gives up.
pub fn encode<C: Columns>(rows: &C, host: &str) -> Result<Vec<u8>, ParquetError>
where
    C::Row: FleetRow,
{
    let mut writer = FileWriter::<C, _>::new(Vec::new(), host)?;
    writer.write(sort_rows(rows))?;
    writer.finish()
}

/// Writes one file of a table, part by part.
struct FileWriter<C, W: Write + Send> {
    writer: ArrowWriter<W>,
    rows: usize,
    columns: PhantomData<C>,
}

impl<C: Columns, W: Write + Send> FileWriter<C, W> {
    /// Begins a Parquet file of a host's rows.
    fn new(sink: W, host: &str) -> Result<Self, ParquetError> {
        let pair = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_key_value_metadata(Some(vec![
                pair(FLEET_SCHEMA_KEY, FLEET_SCHEMA),
                pair(HOST_KEY, host),
            ]))
            .build();
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true);
        Ok(Self {
            writer: ArrowWriter::try_new_with_options(sink, C::schema(), options)?,
            rows: 0,
            columns: PhantomData,
        })
    }

    /// Adds rows to the file.
    fn write(&mut self, rows: C) -> Result<(), ParquetError> {
        self.rows += rows.len();
        self.writer.write(&rows.into_batch())
    }

    /// Ends the file, with the number of rows in its metadata.
    fn finish(mut self) -> Result<W, ParquetError> {
        let rows = KeyValue::new(ROWS_KEY.to_owned(), self.rows.to_string());
        self.writer.append_key_value_metadata(rows);
        self.writer.into_inner()
    }
}

/// Reads all rows of a file.
///
/// # Errors
/// When it is not a whole file of this table and schema.
pub fn read<C: Columns>(path: &Path) -> Result<C, Problem> {
    catch_panics(|| read_guarded(path)).map_err(|cause| Problem::from_file(path, None, cause))
}

/// Reads all rows of a file; an error if its schema or number of rows is wrong.
fn read_guarded<C: Columns>(path: &Path) -> Result<C, String> {
    let builder = open_rows::<C>(path)?;
    check_metadata(&builder)?;
    let reader = builder.with_batch_size(BATCH_ROWS).build();
    let mut rows = C::default();
    for batch in reader.map_err(|error| error.to_string())? {
        let batch = batch.map_err(|error| error.to_string())?;
        rows.append(C::from_batch(&batch).map_err(|error| error.to_string())?);
    }
    Ok(rows)
}

/// Opens a Parquet file, without the Arrow schema in its metadata.
fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
        .map_err(|error| error.to_string())
}

/// Opens a file to read its rows; refuses one that becomes too large in memory.
fn open_rows<C: Columns>(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, String> {
    let builder = open(path)?;
    let pages = File::open(path).map_err(|error| error.to_string())?;
    let columns = check(&pages, builder.metadata(), Some(&C::schema()))?;
    let mask = ProjectionMask::leaves(builder.parquet_schema(), columns);
    Ok(builder.with_projection(mask))
}

/// Returns the metadata of a file under a key.
fn file_metadata<'a>(
    builder: &'a ParquetRecordBatchReaderBuilder<File>,
    key: &str,
) -> Option<&'a str> {
    let metadata = builder.metadata().file_metadata();
    let mut pairs = metadata.key_value_metadata()?.iter();
    pairs.find(|pair| pair.key == key)?.value.as_deref()
}

/// Demands this version's schema, and as many rows as the file was written with.
fn check_metadata(builder: &ParquetRecordBatchReaderBuilder<File>) -> Result<(), String> {
    let schema = file_metadata(builder, FLEET_SCHEMA_KEY).unwrap_or("not given");
    if schema != FLEET_SCHEMA {
        return Err(format!("its schema is {schema}, not {FLEET_SCHEMA}"));
    }
    let rows = builder.metadata().file_metadata().num_rows().to_string();
    match file_metadata(builder, ROWS_KEY) {
        Some(given) if given == rows => Ok(()),
        given => Err(format!(
            "holds {rows} rows and says {}",
            given.unwrap_or("nothing")
        )),
    }
}

/// Returns the time of a file's earliest row, from its statistics; `None` without rows.
fn first_ns<C: Columns>(path: &Path) -> Result<Option<i64>, String> {
    let column = C::Row::TIME;
    catch_panics(|| {
        let builder = open_rows::<C>(path)?;
        let groups = builder.metadata().row_groups().iter();
        let of_groups = groups.map(|group| {
            let columns = group.columns().iter();
            let mut times = columns.filter(|chunk| chunk.column_path().string() == column);
            match times.next().and_then(|chunk| chunk.statistics()) {
                Some(Statistics::Int64(times)) => times.min_opt().copied(),
                _ => None,
            }
        });
        let firsts: Option<Vec<i64>> = of_groups.collect();
        match firsts {
            Some(firsts) => Ok(firsts.into_iter().min()),
            None => Err(format!("says nothing of its {column}")),
        }
    })
}

/// Merging failed.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// One of the files cannot be read.
    #[error("{0}")]
    Damaged(Problem),
    /// The merged file cannot be written.
    #[error("cannot write the merged file: {0}")]
    Write(#[from] ParquetError),
}

impl From<io::Error> for MergeError {
    fn from(error: io::Error) -> Self {
        Self::Write(error.into())
    }
}

/// Writes the rows of several files, each of them sorted, as one sorted file. Of files with times that do not overlap only
/// two are in memory at a time.
///
/// # Errors
/// When one of the files cannot be read or the sink not be written.
pub fn merge<C: Columns, W: Write + Send>(files: &[PathBuf], sink: W) -> Result<W, MergeError>
where
    C::Row: FleetRow,
{
    let mut writer = FileWriter::<C, W>::new(sink, &host_of(files)?)?;
    let mut held = C::default();
    for (path, until_ns) in files.iter().zip(begins_of_rest::<C>(files)?) {
        held.append(read(path).map_err(MergeError::Damaged)?);
        let (ready, rest) = split(&sort_rows(&held), until_ns);
        writer.write(ready)?;
        held = rest;
    }
    Ok(writer.finish()?)
}

/// The host that wrote these files.
fn host_of(files: &[PathBuf]) -> Result<String, MergeError> {
    let Some(path) = files.first() else {
        return Ok(String::new());
    };
    let host = catch_panics(|| {
        Ok(file_metadata(&open(path)?, HOST_KEY)
            .unwrap_or_default()
            .to_owned())
    });
    host.map_err(|cause| MergeError::Damaged(Problem::from_file(path, None, cause)))
}

/// Returns for each file the earliest time in those after it; the end of time for the last.
fn begins_of_rest<C: Columns>(files: &[PathBuf]) -> Result<Vec<i64>, MergeError> {
    let mut begins = vec![i64::MAX; files.len()];
    for (index, path) in files.iter().enumerate().skip(1).rev() {
        let first = first_ns::<C>(path)
            .map_err(|cause| MergeError::Damaged(Problem::from_file(path, None, cause)))?
            .unwrap_or(i64::MAX);
        begins[index - 1] = begins[index].min(first);
    }
    Ok(begins)
}

/// Splits sorted rows at a time: those before it, and the rest.
fn split<C: Columns>(rows: &C, until_ns: i64) -> (C, C) {
    let until_ns = until_ns.max(0).cast_unsigned();
    let (mut before, mut after) = (C::default(), C::default());
    for index in 0..rows.len() {
        let row = rows.row(index);
        // at the end of time nothing is held back
        if row.time_ns() < until_ns || until_ns == i64::MAX.cast_unsigned() {
            before.push(row);
        } else {
            after.push(row);
        }
    }
    (before, after)
}
