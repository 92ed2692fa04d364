//! How large the pages of a file become when they are unpacked: asked of their headers before any page is decoded, so
//! that a file of some kilobytes cannot fill the memory of who reads it.
//!
//! Headers are Thrift structs in the compact protocol. `parquet` does not give them, and unpacks what they promise: without
//! this check, a file that another person sent can end the reader's host.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

/// Most bytes that a page may unpack to: whylat's have one mebibyte, or a thousand texts.
const MOST_BYTES: u64 = 64 << 20;

/// Longest header that is read.
const MOST_HEADER_BYTES: usize = 64 << 10;
/// Bytes that are read for it at first: most have no more.
const HEADER_BYTES: usize = 256;
/// Structs within each other.
const MOST_DEPTH: u32 = 8;

/// Fields of `PageHeader`.
const UNPACKED_BYTES: i16 = 2;
const PACKED_BYTES: i16 = 3;

/// Refuses a file with a page that unpacks to more than [`MOST_BYTES`].
pub(crate) fn check(file: &File, metadata: &ParquetMetaData) -> Result<(), String> {
    let groups = metadata.row_groups().iter();
    let mut packed = groups
        .flat_map(|group| group.columns())
        .filter(|chunk| chunk.compression() != Compression::UNCOMPRESSED);
    packed.try_for_each(|chunk| check_chunk(file, chunk))
}

/// Refuses a column with a page that unpacks to too many bytes.
fn check_chunk(file: &File, chunk: &ColumnChunkMetaData) -> Result<(), String> {
    let (mut at, bytes) = chunk.byte_range();
    let end = at.saturating_add(bytes);
    while at < end {
        let header = read_header(file, at)?;
        if header.unpacked_bytes > MOST_BYTES {
            return Err(format!(
                "a page of column {} unpacks to {} bytes: more than {MOST_BYTES}",
                chunk.column_path(),
                header.unpacked_bytes
            ));
        }
        at += header.own_bytes + header.packed_bytes;
    }
    Ok(())
}

/// Header of a Parquet page.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    own_bytes: u64,
    unpacked_bytes: u64,
    packed_bytes: u64,
}

/// Reads the header of the page at this offset.
fn read_header(file: &File, at: u64) -> Result<Header, String> {
    let mut bytes = vec![0; HEADER_BYTES];
    loop {
        let length = file
            .read_at(&mut bytes, at)
            .map_err(|error| error.to_string())?;
        if let Some(header) = parse(&bytes[..length]) {
            return Ok(header);
        }
        if length < bytes.len() || length >= MOST_HEADER_BYTES {
            return Err(format!("no page header at byte {at}"));
        }
        bytes.resize(MOST_HEADER_BYTES, 0);
    }
}

/// Parses a page header; `None`: it does not end here, or is none.
fn parse(bytes: &[u8]) -> Option<Header> {
    let mut left = Thrift(bytes);
    let (mut unpacked_bytes, mut packed_bytes) = (None, None);
    let mut last = 0;
    while let Some((id, kind)) = left.field(last)? {
        last = id;
        let size = match id {
            UNPACKED_BYTES => &mut unpacked_bytes,
            PACKED_BYTES => &mut packed_bytes,
            _ => {
                left.skip(kind, MOST_DEPTH)?;
                continue;
            }
        };
        *size = Some(u64::try_from(left.read_integer(kind)?).ok()?);
    }
    Some(Header {
        own_bytes: (bytes.len() - left.0.len()) as u64,
        unpacked_bytes: unpacked_bytes?,
        packed_bytes: packed_bytes?,
    })
}

/// The bytes left to read.
struct Thrift<'a>(&'a [u8]);

impl Thrift<'_> {
    /// Reads one byte; None at the end.
    fn read_byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Skips bytes; None if too few are left.
    fn take(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    /// Reads a number of variable length; None if it is cut off.
    fn read_varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.read_byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Number and type of the next field; inner `None` at the end of the struct. They come in ascending order, each once.
    fn field(&mut self, last: i16) -> Option<Option<(i16, u8)>> {
        let head = self.read_byte()?;
        match (head >> 4, head & 0xf) {
            (_, 0) => Some(None),
            (0, _) => None,
            (further, kind) => Some(Some((last.checked_add(further.into())?, kind))),
        }
    }

    /// Reads an `i16`, `i32` or `i64`, in zigzag.
    fn read_integer(&mut self, kind: u8) -> Option<i64> {
        let value = matches!(kind, 4..=6).then(|| self.read_varint())??;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Skips a value: boolean, number, binary or struct. Headers of pages have no lists or maps.
    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            1 | 2 => Some(()),
            3 => self.take(1),
            4..=6 => self.read_varint().map(drop),
            7 => self.take(8),
            8 => {
                let bytes = self.read_varint()?;
                self.take(bytes)
            }
            12 => {
                let depth = depth.checked_sub(1)?;
                let mut last = 0;
                while let Some((id, kind)) = self.field(last)? {
                    last = id;
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::basic::ZstdLevel;
    use parquet::data_type::Int64Type;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    /// Writes a file of one column of zeros in one page.
    fn zeros(values: usize) -> File {
        let schema = parse_message_type("message m { required int64 a; }").expect("a schema");
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(usize::MAX)
            .set_data_page_row_count_limit(usize::MAX);
        let file = tempfile::tempfile().expect("a file");
        let to = file.try_clone().expect("the same file");
        let mut writer =
            SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties.build()))
                .expect("a writer");
        let mut group = writer.next_row_group().expect("a row group");
        let mut column = group.next_column().expect("a column").expect("one column");
        let zeros = vec![0; 1 << 16];
        for start in (0..values).step_by(zeros.len()) {
            let part = &zeros[..zeros.len().min(values - start)];
            let batch = column.typed::<Int64Type>().write_batch(part, None, None);
            batch.expect("written");
        }
        column.close().expect("closed");
        group.close().expect("closed");
        writer.close().expect("closed");
        file
    }

    /// Checks all pages of a file.
    fn judged(file: &File) -> Result<(), String> {
        let to = file.try_clone().expect("the same file");
        let builder = ParquetRecordBatchReaderBuilder::try_new(to).expect("a Parquet file");
        check(file, builder.metadata())
    }

    #[test]
    fn page_with_large_expansion_is_refused() {
        let most = MOST_BYTES as usize / 8;
        assert_eq!(judged(&zeros(most)), Ok(()));
        let bomb = zeros(most + 1);
        let bytes = bomb.metadata().expect("its length").len();
        assert!(bytes < 100_000, "{bytes} bytes");
        let why = judged(&bomb).expect_err("a bomb");
        assert!(why.contains("column \"a\" unpacks to 67108872"), "{why}");
    }

    #[test]
    fn truncated_page_header_is_refused() {
        // type 0, unpacked 300, packed 5, then a struct with one field
        let header = [0x15, 0, 0x15, 0xd8, 4, 0x15, 10, 0x2c, 0x15, 2, 0, 0];
        let expected = Header {
            own_bytes: 12,
            unpacked_bytes: 300,
            packed_bytes: 5,
        };
        assert_eq!(parse(&[&header[..], &[9]].concat()), Some(expected));
        for length in 0..header.len() {
            assert_eq!(parse(&header[..length]), None);
        }
        // the sizes twice, a negative one, structs without end
        assert_eq!(parse(&[0x25, 2, 0x05, 4, 2, 0x15, 2, 0]), None);
        assert_eq!(parse(&[0x25, 1, 0x15, 2, 0]), None);
        assert_eq!(parse(&[0x1c; 100]), None);
    }

    #[test]
    fn a_file_that_ends_within_a_chunk_is_refused() {
        let file = zeros(100);
        let whole = judged(&file);
        assert_eq!(whole, Ok(()));
        let path = tempfile::NamedTempFile::new().expect("a file");
        fs::write(path.path(), [0; 4]).expect("written");
        let cut = File::open(path.path()).expect("opened");
        assert!(read_header(&cut, 4).is_err_and(|why| why.contains("byte 4")));
    }
}
