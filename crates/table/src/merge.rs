//! Merging: the segments of a table in, one compressed file with page statistics out, batch
//! by batch. Used when a recording closes, by the recorder or by `recover`.

use std::fs;
use std::path::Path;

use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::decode::{self, Batches};
use crate::error::{Problem, WriteError};
use crate::files::{
    DigestingFile, FinishedFile, Temporary, segment_name, segment_number, sync_dir,
};
use crate::journal::{self, Holding, Journal};
use crate::manifest::{Line, Segment};
use crate::progress;

/// Rows in a row group of a merged file.
const GROUP_ROWS: usize = 512 << 10;
/// Encoded bytes in a row group: what merging may hold in memory.
const GROUP_BYTES: usize = 16 << 20;

/// Merges every table that has something to merge. Returns the tables that could not be:
/// they keep their segments.
pub(crate) fn merge_all(dir: &Path, journal: &mut Journal) -> Result<Vec<WriteError>, WriteError> {
    let contents = journal::read(dir)?;
    let (holdings, _) = contents.holdings(dir);
    let mut unmerged = Vec::new();
    let waiting = holdings.values().filter(|holding| !holding.merged);
    let rows = waiting
        .flat_map(|holding| &holding.segments)
        .map(|segment| segment.rows);
    progress::begin(|| "merging".to_owned(), rows.sum());
    for (table, holding) in holdings {
        if !holding.merged {
            unmerged.extend(table_into_one(dir, &table, &holding, journal).err());
        }
    }
    Ok(unmerged)
}

/// Merges one table: file, manifest line, and only then the old files' removal.
fn table_into_one(
    dir: &Path,
    table: &str,
    holding: &Holding,
    journal: &mut Journal,
) -> Result<(), WriteError> {
    let merged = write_merged(dir, table, &holding.segments)?.rename(dir)?;
    sync_dir(&dir.join(table))?;
    if let Err(error) = journal.append(&[Line::Merged(merged.clone())]) {
        // Without its line the file is not part of the recording.
        let _ = fs::remove_file(dir.join(&merged.file));
        return Err(error);
    }
    for segment in &holding.segments {
        let path = dir.join(&segment.file);
        fs::remove_file(&path).map_err(|source| WriteError::io("remove", &path, source))?;
    }
    Ok(())
}

/// Writes the merged file. A damaged segment must not get a new, valid digest, so each is
/// compared with its own first.
fn write_merged(dir: &Path, table: &str, segments: &[Segment]) -> Result<FinishedFile, WriteError> {
    let number = segments
        .iter()
        .map(|segment| segment_number(&segment.file))
        .max();
    let name = segment_name(table, number.unwrap_or(0) + 1);
    let (temporary, file) = Temporary::create(dir, table, &name)?;
    let mut sink = Some(DigestingFile::new(file));
    let mut writer = None;
    for segment in segments {
        let damaged = |cause| damage_error(dir, table, segment, cause);
        decode::verify(&dir.join(&segment.file), segment).map_err(damaged)?;
        let batches = Batches::open(&dir.join(&segment.file), segment, None).map_err(damaged)?;
        if let Some(sink) = sink.take() {
            writer = Some(
                new_writer(sink, batches.schema())
                    .map_err(|source| WriteError::encode(table, temporary.path(), source))?,
            );
        }
        let Some(writer) = &mut writer else { continue };
        for batch in batches {
            writer.write(&batch.map_err(damaged)?).map_err(|source| {
                let disk = writer.inner_mut().take_failure();
                WriteError::from_writer(table, temporary.path(), source, disk)
            })?;
        }
    }
    finish(writer, temporary, merged_segment(table, name, segments))
}

/// Makes the error of a segment that cannot be read while files are merged.
fn damage_error(dir: &Path, table: &str, segment: &Segment, cause: String) -> WriteError {
    let problem = Problem::from_file(&dir.join(&segment.file), None, cause);
    WriteError::Damaged {
        table: table.to_owned(),
        problem,
    }
}

/// Makes the manifest line of the merged file, without its length and digest.
fn merged_segment(table: &str, file: String, segments: &[Segment]) -> Segment {
    Segment {
        table: table.to_owned(),
        file,
        rows: segments.iter().map(|segment| segment.rows).sum(),
        first_ns: segments
            .iter()
            .map(|segment| segment.first_ns)
            .min()
            .unwrap_or(0),
        last_ns: segments
            .iter()
            .map(|segment| segment.last_ns)
            .max()
            .unwrap_or(0),
        bytes: 0,
        blake3: String::new(),
    }
}

/// Ends the merged file, and takes its length and digest into the segment.
fn finish(
    writer: Option<ArrowWriter<DigestingFile>>,
    temporary: Temporary,
    mut segment: Segment,
) -> Result<FinishedFile, WriteError> {
    if let Some(mut writer) = writer {
        writer.finish().map_err(|source| {
            let disk = writer.inner_mut().take_failure();
            WriteError::from_writer(&segment.table, temporary.path(), source, disk)
        })?;
        (segment.bytes, segment.blake3) = (writer.inner_mut().finish())
            .map_err(|source| WriteError::io("write", temporary.path(), source))?;
    }
    Ok(FinishedFile::new(temporary, segment))
}

/// Begins the merged file of a table.
fn new_writer(
    sink: DigestingFile,
    schema: &SchemaRef,
) -> Result<ArrowWriter<DigestingFile>, ParquetError> {
    let options = ArrowWriterOptions::new()
        .with_properties(writer_properties(schema)?)
        .with_skip_arrow_metadata(true);
    ArrowWriter::try_new_with_options(sink, schema.clone(), options)
}

/// Returns the encodings of merged files: packed differences and shared prefixes, both without a
/// dictionary.
fn writer_properties(schema: &SchemaRef) -> Result<WriterProperties, ParquetError> {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES));
    for field in schema.fields() {
        let encoding = match field.data_type() {
            kind if kind.is_integer() => Encoding::DELTA_BINARY_PACKED,
            DataType::Utf8 => Encoding::DELTA_BYTE_ARRAY,
            _ => Encoding::PLAIN,
        };
        builder = builder.set_column_encoding(ColumnPath::from(field.name().as_str()), encoding);
    }
    Ok(builder.build())
}
