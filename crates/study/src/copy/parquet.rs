//! Every repetition as Parquet: impl, size, thread, repetition, and a column a figure; null is not measured.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::figures::FIGURES;
use super::journal::{JournalEntry, StudyJournal};
use lab::LabError;

/// Writes the journal's runs as Parquet.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write(journal: &StudyJournal, path: &Path) -> Result<(), LabError> {
    let failed = |why| LabError::os("write", path.display().to_string(), why, "free space");
    let runs = journal.entries.iter().filter_map(|entry| match entry {
        JournalEntry::Run {
            config,
            repetition,
            figures,
        } => Some((config, *repetition, figures)),
        _ => None,
    });
    let runs: Vec<_> = runs.collect();
    let names = runs.iter().map(|(config, ..)| config.variant.name());
    let whole = |of: &dyn Fn(usize) -> usize| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(
            (0..runs.len()).map(|run| of(run) as u64),
        ))
    };
    let mut columns: Vec<(&str, ArrayRef, bool)> = vec![
        (
            "impl",
            Arc::new(StringArray::from_iter_values(names)),
            false,
        ),
        ("size", whole(&|run| runs[run].0.size), false),
        ("thread", whole(&|run| runs[run].0.threads), false),
        ("repetition", whole(&|run| runs[run].1), false),
    ];
    for figure in FIGURES {
        let values = runs.iter().map(|(_, _, figures)| figures.get(figure.name));
        columns.push((figure.name, Arc::new(Float64Array::from_iter(values)), true));
    }
    let write = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let batch = RecordBatch::try_from_iter_with_nullable(columns)?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .build();
        let mut writer =
            ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        writer.close()?;
        Ok(())
    };
    write().map_err(io::Error::other).map_err(failed)
}
