//! Parquet pages of an open segment. Columns come in as slices of cells, page after page;
//! column chunks that the `parquet` crate's file writer takes as they are go out.
//!
//! Written for the recorder's hot path: integers as packed differences, text as shared
//! prefixes, no statistics, no compression. Merging rewrites all of it, so nothing here needs
//! to be small beyond what hashing and writing would otherwise cost.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::SchemaDescriptor;

use crate::delta;

/// A cell of fixed width.
pub trait FixedWidth: Copy + Default {
    /// How pages hold it.
    const ENCODING: Encoding;
    /// Appends the encoded values to the page.
    fn encode(cells: &[Self], page: &mut PageBody);
    /// Appends definition levels, and the encoded values of filled cells.
    fn encode_optional(cells: &[Option<Self>], page: &mut PageBody);
}

macro_rules! integers {
    ($($native:ty, $physical:ty, $scratch:ident;)+) => {$(
        impl FixedWidth for $native {
            const ENCODING: Encoding = Encoding::DELTA_BINARY_PACKED;
            fn encode(cells: &[Self], page: &mut PageBody) {
                page.$scratch.clear();
                page.$scratch.extend(cells.iter().map(|&cell| cell as $physical));
                delta::encode(&page.$scratch, &mut page.bytes);
            }
            fn encode_optional(cells: &[Option<Self>], page: &mut PageBody) {
                page.$scratch.resize(cells.len(), 0);
                let scratch = &mut page.$scratch[..cells.len()];
                let mut present = 0;
                // Always stored, and stepped over only if it is there: which cells are null
                // is too random for a branch.
                for cell in cells {
                    scratch[present] = cell.unwrap_or_default() as $physical;
                    present += usize::from(cell.is_some());
                }
                page.write_levels(cells, present);
                delta::encode(&page.$scratch[..present], &mut page.bytes);
            }
        }
    )+};
}

integers! {
    u8, i32, integers32;
    u16, i32, integers32;
    u32, i32, integers32;
    i32, i32, integers32;
    u64, i64, integers64;
    i64, i64, integers64;
}

impl FixedWidth for f64 {
    const ENCODING: Encoding = Encoding::PLAIN;
    fn encode(cells: &[Self], page: &mut PageBody) {
        page.bytes
            .extend(cells.iter().flat_map(|cell| cell.to_le_bytes()));
    }
    fn encode_optional(cells: &[Option<Self>], page: &mut PageBody) {
        page.levels_of(cells);
        page.bytes
            .extend(cells.iter().flatten().flat_map(|cell| cell.to_le_bytes()));
    }
}

/// The body of one data page, and the scratch space to make it.
#[derive(Debug, Default)]
pub struct PageBody {
    bytes: Vec<u8>,
    integers32: Vec<i32>,
    integers64: Vec<i64>,
    text: Vec<u8>,
}

impl PageBody {
    /// Appends the definition levels of cells, `present` of them filled: one bit a cell.
    fn write_levels<T>(&mut self, cells: &[Option<T>], present: usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        if present == cells.len() || present == 0 {
            delta::varint((cells.len() as u64) << 1, &mut self.bytes);
            self.bytes.push(u8::from(present > 0));
        } else {
            delta::varint((cells.len().div_ceil(8) as u64) << 1 | 1, &mut self.bytes);
            self.pack_bits(cells, Option::is_some);
        }
        let length = (self.bytes.len() - start - 4) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Counts filled cells, and appends their definition levels.
    pub fn levels_of<T>(&mut self, cells: &[Option<T>]) {
        self.write_levels(cells, cells.iter().filter(|cell| cell.is_some()).count());
    }

    /// Appends booleans, one bit each.
    pub fn bools(&mut self, values: &[bool]) {
        self.pack_bits(values, |&value| value);
    }

    /// Packs a bit for each cell, lowest first, and fills the last byte up with zeros.
    fn pack_bits<T>(&mut self, cells: &[T], bit: impl Fn(&T) -> bool) {
        let byte = |cells: &[T]| {
            let bits = cells.iter().enumerate();
            bits.fold(0, |byte, (index, cell)| byte | u8::from(bit(cell)) << index)
        };
        let (eights, rest) = cells.as_chunks::<8>();
        self.bytes.extend(eights.iter().map(|eight| byte(eight)));
        if !rest.is_empty() {
            self.bytes.push(byte(rest));
        }
    }

    /// Appends texts as DELTA_BYTE_ARRAY: shared beginnings, lengths of the rests, then the rests.
    pub fn strings<'a>(&mut self, values: impl Iterator<Item = &'a str> + Clone) {
        let shared = values.clone().scan("", |before, value| {
            let length = shared_bytes(before.as_bytes(), value.as_bytes());
            *before = value;
            Some((length, value))
        });
        self.text.clear();
        self.integers32.clear();
        self.integers32
            .extend(shared.clone().map(|(length, _)| length as i32));
        delta::encode(&self.integers32, &mut self.bytes);
        self.integers32.clear();
        for (length, value) in shared {
            let rest = &value.as_bytes()[length..];
            self.integers32.push(rest.len() as i32);
            self.text.extend_from_slice(rest);
        }
        delta::encode(&self.integers32, &mut self.bytes);
        self.bytes.extend_from_slice(&self.text);
    }
}

/// Returns the length of the common beginning of two values.
fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    if a == b {
        return a.len();
    }
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Called between pieces of encoding and writing of a few dozen microseconds each: where a writer that is to
/// disturb nobody lets others go first.
pub type Between = Arc<dyn Fn() + Send + Sync>;

/// Encoded pages of every column that are not yet in the file.
pub struct RowGroup {
    columns: Vec<Chunk>,
    rows: usize,
    page_rows: usize,
    next: usize,
    body: PageBody,
    between: Between,
}

/// Pages of one column.
struct Chunk {
    encoding: Encoding,
    pages: TrackedWrite<Vec<u8>>,
}

impl RowGroup {
    /// An empty group with these column encodings.
    pub(crate) fn new(encodings: &[Encoding], between: Between) -> Self {
        let columns = encodings
            .iter()
            .map(|&encoding| Chunk {
                encoding,
                pages: TrackedWrite::new(Vec::new()),
            })
            .collect();
        Self {
            columns,
            rows: 0,
            page_rows: 0,
            next: 0,
            body: PageBody::default(),
            between,
        }
    }

    /// Returns the function to call between pieces of work.
    pub(crate) fn between(&self) -> Between {
        Arc::clone(&self.between)
    }

    /// Returns the number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Returns the number of rows in the group.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the encoded bytes in the group.
    pub(crate) fn bytes(&self) -> usize {
        self.columns
            .iter()
            .map(|chunk| chunk.pages.bytes_written())
            .sum()
    }

    /// Starts a page of every column.
    #[doc(hidden)]
    pub fn begin(&mut self, rows: usize) {
        self.rows += rows;
        self.page_rows = rows;
        self.next = 0;
    }

    /// Adds the page of the next column; `encode` writes its body.
    #[doc(hidden)]
    pub fn column(&mut self, encode: impl FnOnce(&mut PageBody)) -> Result<(), ParquetError> {
        let chunk = self.columns.get_mut(self.next).ok_or_else(|| {
            ParquetError::General(format!("column {} is not declared", self.next))
        })?;
        self.next += 1;
        (self.between)();
        encode(&mut self.body);
        let bytes = self.body.bytes.len();
        let body = std::mem::replace(&mut self.body.bytes, Vec::with_capacity(bytes));
        let page = Page::DataPage {
            buf: body.into(),
            num_values: self.page_rows as u32,
            encoding: chunk.encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let page = CompressedPage::new(page, bytes);
        SerializedPageWriter::new(&mut chunk.pages).write_page(page)?;
        Ok(())
    }

    /// Moves everything into a row group of the file and starts again.
    pub(crate) fn flush_into<W: std::io::Write + Send>(
        &mut self,
        mut group: SerializedRowGroupWriter<'_, W>,
        schema: &SchemaDescriptor,
    ) -> Result<(), ParquetError> {
        for (chunk, descriptor) in self.columns.iter_mut().zip(schema.columns()) {
            let next = Vec::with_capacity(chunk.pages.bytes_written());
            let pages = std::mem::replace(&mut chunk.pages, TrackedWrite::new(next));
            let pages = Bytes::from(pages.into_inner()?);
            let metadata = ColumnChunkMetaData::builder(descriptor.clone())
                .set_encodings(vec![chunk.encoding, Encoding::RLE])
                .set_num_values(self.rows as i64)
                .set_total_compressed_size(pages.len() as i64)
                .set_total_uncompressed_size(pages.len() as i64)
                .set_data_page_offset(0)
                .build()?;
            let close = ColumnCloseResult {
                bytes_written: pages.len() as u64,
                rows_written: self.rows as u64,
                metadata,
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            (self.between)();
            group.append_column(&pages, close)?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}
