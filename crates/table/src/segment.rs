//! One open segment of one table: columns in, a sealed Parquet file and its manifest line out.
//!
//! Rows wait as columns until they fill a page, encoded pages wait until they fill a row
//! group, and row groups go to a file with a temporary name, digested on the way. So memory
//! is bounded whatever the size of the segment.

use std::any::Any;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use parquet::arrow::ArrowSchemaConverter;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::encode::{Between, RowGroup};
use crate::error::WriteError;
use crate::files::{DigestingFile, FinishedFile, Temporary, segment_name};
use crate::manifest::Segment;
use crate::{Columns, Table};

/// Rows in a page. Fewer cost more headers, more cost more memory.
const PAGE_ROWS: usize = 8192;
/// Encoded bytes in a row group.
const GROUP_BYTES: usize = 2 << 20;

/// An open segment without the type of its columns, so that one list holds every table.
pub(crate) trait OpenTable: Send {
    /// Returns the name of the table.
    fn table(&self) -> &'static str;
    /// Returns the number of rows that are not sealed.
    fn rows(&self) -> u64;
    /// Returns the bytes encoded so far.
    fn bytes(&self) -> u64;
    /// Writes the remaining rows and syncs the file, which still has its temporary name. The rows
    /// still count until `reset`.
    fn finish(&mut self) -> Result<Option<FinishedFile>, WriteError>;
    /// Starts again: forgets the rows, sealed by now or given up, and says how many there
    /// were. A file that is not finished is removed.
    fn reset(&mut self) -> u64;
    /// Returns itself, from which the typed columns are found again.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// The open segment of a table.
pub(crate) struct OpenSegment<C> {
    dir: PathBuf,
    /// Number of the next file of this table.
    number: u32,
    /// Rows that do not yet fill a page.
    waiting: C,
    group: RowGroup,
    file: Option<SegmentFile>,
    rows: u64,
    range_ns: Option<(u64, u64)>,
}

impl<C: Columns> OpenSegment<C> {
    /// Makes a segment; its file is created with the first rows.
    pub(crate) fn new(dir: &Path, between: Between) -> Self {
        Self {
            dir: dir.to_owned(),
            number: 1,
            waiting: C::default(),
            group: RowGroup::new(&C::encodings(), between),
            file: None,
            rows: 0,
            range_ns: None,
        }
    }

    /// Adds rows to the segment.
    pub(crate) fn append(&mut self, columns: C) -> Result<(), WriteError> {
        let Some((first_ns, last_ns)) = columns.time_range_ns() else {
            return Ok(());
        };
        let (first, last) = self.range_ns.unwrap_or((first_ns, last_ns));
        self.range_ns = Some((first.min(first_ns), last.max(last_ns)));
        self.rows += columns.len() as u64;
        if self.waiting.is_empty() {
            self.waiting = columns;
        } else {
            self.waiting.append(columns);
        }
        if self.waiting.len() < PAGE_ROWS / 2 {
            return Ok(());
        }
        self.encode_waiting()
    }

    /// Encodes the waiting rows, a page at a time.
    fn encode_waiting(&mut self) -> Result<(), WriteError> {
        let columns = std::mem::take(&mut self.waiting);
        let mut start = 0;
        while start < columns.len() {
            let end = columns.len().min(start + PAGE_ROWS);
            self.encode_page(&columns, start..end)?;
            start = end;
        }
        Ok(())
    }

    /// Encodes these rows as one page of each column.
    fn encode_page(&mut self, columns: &C, rows: Range<usize>) -> Result<(), WriteError> {
        let encoded = columns.encode(rows, &mut self.group);
        encoded.map_err(|source| WriteError::encode(C::Row::NAME, &self.dir, source))?;
        if self.group.bytes() >= GROUP_BYTES {
            self.flush_group()
        } else {
            Ok(())
        }
    }

    /// Writes the encoded pages as a row group; creates the file for the first one.
    fn flush_group(&mut self) -> Result<(), WriteError> {
        if self.group.rows() == 0 {
            return Ok(());
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => SegmentFile::create(&self.dir, C::Row::NAME, C::schema, self.number)?,
        };
        self.file.insert(file).write_group(&mut self.group)
    }
}

impl<C: Columns> OpenTable for OpenSegment<C> {
    fn table(&self) -> &'static str {
        C::Row::NAME
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn bytes(&self) -> u64 {
        let filed = self.file.as_ref().map_or(0, SegmentFile::bytes);
        let waiting = self.waiting.len() * self.group.columns() * size_of::<u64>();
        filed + (self.group.bytes() + waiting) as u64
    }

    fn finish(&mut self) -> Result<Option<FinishedFile>, WriteError> {
        self.encode_waiting()?;
        self.flush_group()?;
        let (Some(file), Some((first_ns, last_ns))) = (self.file.take(), self.range_ns) else {
            return Ok(None);
        };
        let finished = file.finish(self.rows, first_ns, last_ns)?;
        self.number += 1;
        Ok(Some(finished))
    }

    fn reset(&mut self) -> u64 {
        self.waiting = C::default();
        self.group = RowGroup::new(&C::encodings(), self.group.between());
        self.file = None;
        self.range_ns = None;
        std::mem::take(&mut self.rows)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The file behind an open segment.
struct SegmentFile {
    table: &'static str,
    name: String,
    // Dropped before `temporary`, so that the file is closed when its name is removed.
    writer: SerializedFileWriter<DigestingFile>,
    temporary: Temporary,
}

impl SegmentFile {
    /// Creates the file of a segment, with this number in its name.
    fn create(
        dir: &Path,
        table: &'static str,
        schema: fn() -> SchemaRef,
        number: u32,
    ) -> Result<Self, WriteError> {
        let name = segment_name(table, number);
        let (temporary, file) = Temporary::create(dir, table, &name)?;
        let path = temporary.path().to_owned();
        let encode = |source| WriteError::encode(table, &path, source);
        let schema = ArrowSchemaConverter::new()
            .convert(&schema())
            .map_err(encode)?;
        let properties = WriterProperties::builder()
            .set_offset_index_disabled(true)
            .build();
        let sink = DigestingFile::new(file);
        let writer =
            SerializedFileWriter::new(sink, schema.root_schema_ptr(), Arc::new(properties))
                .map_err(encode)?;
        Ok(Self {
            table,
            name,
            writer,
            temporary,
        })
    }

    /// Returns the bytes written so far.
    fn bytes(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    /// Writes one row group.
    fn write_group(&mut self, group: &mut RowGroup) -> Result<(), WriteError> {
        let schema = self.writer.schema_descr().clone();
        let result = self
            .writer
            .next_row_group()
            .and_then(|row_group| group.flush_into(row_group, &schema));
        result.map_err(|source| self.write_error(source))
    }

    /// Ends the file; returns it with its rows and times.
    fn finish(
        mut self,
        rows: u64,
        first_ns: u64,
        last_ns: u64,
    ) -> Result<FinishedFile, WriteError> {
        self.writer
            .finish()
            .map_err(|source| self.write_error(source))?;
        let (bytes, blake3) = (self.writer.inner_mut().finish())
            .map_err(|source| WriteError::io("write", self.temporary.path(), source))?;
        let segment = Segment {
            table: self.table.to_owned(),
            file: self.name,
            rows,
            first_ns,
            last_ns,
            bytes,
            blake3,
        };
        Ok(FinishedFile::new(self.temporary, segment))
    }

    /// Makes the write error: the disk's if there was one, else the encoder's.
    fn write_error(&mut self, source: ParquetError) -> WriteError {
        WriteError::from_writer(
            self.table,
            self.temporary.path(),
            source,
            self.writer.inner_mut().take_failure(),
        )
    }
}
