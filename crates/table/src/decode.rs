//! Sealed files back to batches. Nothing a file holds may end the program: digests are
//! compared before a file is decoded, and a decoder that panics all the same is caught.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaData;

use crate::expand;
use crate::files;
use crate::manifest::Segment;
use crate::pages;
use crate::progress;
use crate::shape;

/// Rows in a batch: few enough to stay in the cache.
const BATCH_ROWS: usize = 16 << 10;

/// Compares a file with its manifest line; the error says how they differ.
pub(crate) fn verify(path: &Path, segment: &Segment) -> Result<(), String> {
    let (bytes, blake3) = files::digest_file(path).map_err(|error| error.to_string())?;
    if bytes != segment.bytes {
        return Err(format!(
            "{bytes} bytes long, {} in the manifest",
            segment.bytes
        ));
    }
    if blake3 != segment.blake3 {
        return Err("damaged: its digest is not the one in the manifest".to_owned());
    }
    Ok(())
}

/// Returns where the wanted columns are in a file; refuses a file that fills the reader's memory.
pub(crate) fn check(
    file: &File,
    metadata: &ParquetMetaData,
    wanted: Option<&SchemaRef>,
) -> Result<Vec<usize>, String> {
    let columns = shape::columns(metadata.file_metadata().schema_descr(), wanted)?;
    expand::check_rows(file, metadata)?;
    pages::check(file, metadata)?;
    expand::check_text(file, metadata, &columns)?;
    Ok(columns)
}

/// The batches of one file.
pub(crate) struct Batches {
    reader: ParquetRecordBatchReader,
    schema: SchemaRef,
}

impl Batches {
    /// Opens a file, with only the wanted columns if they are given.
    pub(crate) fn open(
        path: &Path,
        segment: &Segment,
        wanted: Option<&SchemaRef>,
    ) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let headers = file.try_clone().map_err(|error| error.to_string())?;
        catch_panics(|| {
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
                .map_err(|error| error.to_string())?;
            let rows = builder.metadata().file_metadata().num_rows();
            if u64::try_from(rows) != Ok(segment.rows) {
                return Err(format!(
                    "holds {rows} rows, {} in the manifest",
                    segment.rows
                ));
            }
            let columns = check(&headers, builder.metadata(), wanted)?;
            let mask = ProjectionMask::leaves(builder.parquet_schema(), columns);
            let schema = builder.schema().clone();
            let reader = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
            let reader = reader.build();
            Ok(Self {
                reader: reader.map_err(|error| error.to_string())?,
                schema,
            })
        })
    }

    /// Returns the schema of the whole file.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = catch_panics(|| {
            self.reader
                .next()
                .transpose()
                .map_err(|error| error.to_string())
        });
        if let Ok(Some(batch)) = &next {
            progress::advance_rows(batch.num_rows());
        }
        next.transpose()
    }
}

thread_local! {
    /// A decoder runs: its panic is a cause of a problem, and is not printed.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a decoder; a panic becomes a cause.
pub(crate) fn catch_panics<T>(decode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                hook(panic);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(outer);
    outcome.unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(format!("the decoder gave up: {what}"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::tables::{TcpEvent, TcpEvents};
    use crate::{Columns, Recording, TcpEventKind, WriteOptions, Writer};

    /// Makes 211 events of five connections, of all kinds.
    fn events() -> TcpEvents {
        let mut events = TcpEvents::default();
        for index in 0..211 {
            events.push(TcpEvent {
                conn: index % 5,
                time_ns: index * index,
                kind: TcpEventKind::ALL[index as usize % TcpEventKind::ALL.len()],
                old: (index % 2 == 0).then_some(index as u8),
                new: None,
                segments: Some(index as u32),
                in_flight_bytes: None,
                seq: None,
                end_seq: None,
            });
        }
        events
    }

    /// Writes a recording of these events; returns its file and manifest line.
    fn file(dir: &Path, close: bool) -> (PathBuf, Segment) {
        let header = r#"{"format":1,"whylat":"","host":"","boot_id":"","kernel":"","cpus":1,
            "clocksource":"","detail":"","arguments":[],"started_ns":0,
            "started_realtime_ns":0,"jiffy_ns":null}"#;
        let header = serde_json::from_str(header).expect("header");
        let mut writer = Writer::create(dir, &header, WriteOptions::default()).expect("create");
        writer.append(events()).expect("append");
        writer.seal().expect("seal");
        if close {
            writer.close(1).expect("close");
        }
        let recording = Recording::open(dir).expect("open");
        let segment = recording.holdings()["tcp_events"].segments[0].clone();
        (dir.join(&segment.file), segment)
    }

    /// Decodes damaged files without looking at their digests: whatever the damage, the
    /// outcome is rows or a cause.
    #[test]
    fn decoder_error_becomes_a_cause() {
        let temporary = tempfile::tempdir().expect("temporary directory");
        for close in [false, true] {
            let (path, segment) = file(&temporary.path().join(close.to_string()), close);
            let whole = fs::read(&path).expect("read");
            let mut causes = 0;
            for byte in 0..whole.len() {
                let mut bytes = whole.clone();
                bytes[byte] ^= 1 << (byte % 8);
                fs::write(&path, bytes).expect("write");
                let rows = Batches::open(&path, &segment, None)
                    .and_then(|batches| batches.collect::<Result<Vec<_>, _>>());
                causes += usize::from(rows.is_err_and(|cause| !cause.is_empty()));
            }
            assert!(causes > 100, "{causes} of {} bytes", whole.len());
        }
    }

    #[test]
    fn decoder_panic_becomes_a_cause() {
        let outcome = catch_panics(|| -> Result<(), String> { panic!("length {}", 5) });
        assert_eq!(outcome, Err("the decoder gave up: length 5".to_owned()));
    }
}
