//! Writes a table as one file, with the encoding that makes each column smallest, and refuses names of this machine.

use std::fs;
use std::path::Path;

use arrow_schema::DataType;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use table::declare::RecordBatch;
use table::manifest::Segment;
use table::{Columns, Table};

/// Highest level of zstd.
const ZSTD_LEVEL: i32 = 22;

/// Texts that must not be in a recording that is kept.
pub(super) const FOREIGN: &[&str] = &["/home", "/root", "/tmp", "/work", "/var/tmp"];

/// Writes a table's rows as its only file; what the manifest says of it.
pub(super) fn write_table<T: Table>(
    dir: &Path,
    rows: T::Columns,
) -> Result<Option<Segment>, String> {
    let Some((first_ns, last_ns)) = rows.time_range_ns() else {
        return Ok(None);
    };
    let count = rows.len() as u64;
    for index in 0..rows.len() {
        let mut foreign = Ok(());
        rows.for_each_value(index, |value| {
            if let table::Value::Text(text) = value {
                foreign = foreign.clone().and(check_text(text));
            }
        });
        foreign?;
    }
    let batch = without_empty(&rows.into_batch())?;
    let written = smallest(&batch).map_err(|why| format!("cannot encode {}: {why}", T::NAME))?;
    let file = format!("{}/1.parquet", T::NAME);
    let saved =
        fs::create_dir_all(dir.join(T::NAME)).and_then(|()| fs::write(dir.join(&file), &written));
    saved.map_err(|why| format!("cannot write {file}: {why}"))?;
    Ok(Some(Segment {
        table: T::NAME.to_owned(),
        file,
        rows: count,
        first_ns,
        last_ns,
        bytes: written.len() as u64,
        blake3: blake3::hash(&written).to_hex().to_string(),
    }))
}

/// Without the columns in which nothing is: readers take them for null.
fn without_empty(batch: &RecordBatch) -> Result<RecordBatch, String> {
    let rows = batch.num_rows();
    let filled = (0..batch.num_columns()).filter(|at| batch.column(*at).null_count() < rows);
    let filled: Vec<usize> = filled.collect();
    batch.project(&filled).map_err(|why| why.to_string())
}

/// How a column may be written; `None`: as a dictionary.
type Choice = Option<Encoding>;

/// A file with the encoding for each column that makes it smallest.
fn smallest(batch: &RecordBatch) -> Result<Vec<u8>, ParquetError> {
    let columns = batch.num_columns();
    let mut best: Vec<(i64, Choice)> = vec![(i64::MAX, None); columns];
    let packed = batch
        .schema()
        .fields()
        .iter()
        .map(|field| packed(field.data_type()))
        .collect();
    for choices in [
        packed,
        vec![Some(Encoding::PLAIN); columns],
        vec![None; columns],
    ] {
        let (_, sizes) = encode(batch, &choices)?;
        for ((best, size), choice) in best.iter_mut().zip(sizes).zip(choices) {
            if size < best.0 {
                *best = (size, choice);
            }
        }
    }
    let choices: Vec<Choice> = best.into_iter().map(|(_, choice)| choice).collect();
    Ok(encode(batch, &choices)?.0)
}

/// As the recorder writes columns of this type.
fn packed(kind: &DataType) -> Choice {
    Some(match kind {
        kind if kind.is_integer() => Encoding::DELTA_BINARY_PACKED,
        DataType::Utf8 => Encoding::DELTA_BYTE_ARRAY,
        _ => Encoding::PLAIN,
    })
}

/// The file with these encodings, and the bytes of each column in it.
fn encode(batch: &RecordBatch, choices: &[Choice]) -> Result<(Vec<u8>, Vec<i64>), ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::None);
    for (field, choice) in batch.schema().fields().iter().zip(choices) {
        let column = ColumnPath::from(field.name().as_str());
        properties = properties.set_column_dictionary_enabled(column.clone(), choice.is_none());
        if let Some(encoding) = choice {
            properties = properties.set_column_encoding(column, *encoding);
        }
    }
    let options = ArrowWriterOptions::new()
        .with_properties(properties.build())
        .with_skip_arrow_metadata(true);
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new_with_options(&mut file, batch.schema(), options)?;
    writer.write(batch)?;
    let written = writer.close()?;
    let groups = written.row_groups().iter();
    let mut sizes = vec![0; choices.len()];
    for (at, column) in groups.flat_map(|group| group.columns().iter().enumerate()) {
        sizes[at] += column.compressed_size();
    }
    Ok((file, sizes))
}

/// Refuses a text with a path of this machine.
pub(super) fn check_text(text: &str) -> Result<(), String> {
    match FOREIGN.iter().find(|foreign| text.contains(*foreign)) {
        Some(_) => Err(format!("a path of this machine is in {text:?}")),
        None => Ok(()),
    }
}
