//! How much a file says in few bytes: rows, and texts that stand for themselves many times. Asked before any is made,
//! so that a file of some kilobytes cannot fill the memory of who reads it: `pages` bounds a page, not their number.
//!
//! Every row has a time in nanoseconds, which no encoding makes much shorter than a byte: the densest file of some two
//! hundred that were examined had a row in four bytes. Its texts are a few times as long as the file.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

/// Most rows of a file for each of its bytes, thirty times what was seen, and those of the smallest file.
const ROWS_A_BYTE: u64 = 8;
const SPARE_ROWS: u64 = 16 << 10;
/// Most bytes of text for each byte of a file, and those of the smallest one.
const TEXT_A_BYTE: u64 = 1024;
const SPARE_TEXT: u64 = 16 << 20;

/// Bytes of a length in a page.
const LENGTH: usize = 4;

/// Refuses a file with more rows than a file of its length can have.
pub(crate) fn check_rows(file: &File, metadata: &ParquetMetaData) -> Result<(), String> {
    let bytes = footer_length(file)?;
    let most = SPARE_ROWS.saturating_add(bytes.saturating_mul(ROWS_A_BYTE));
    let rows = metadata.file_metadata().num_rows();
    let of_groups = metadata.row_groups().iter().map(|group| group.num_rows());
    let rows = of_groups.fold(0i64, i64::saturating_add).max(rows);
    match u64::try_from(rows) {
        Ok(rows) if rows <= most => Ok(()),
        _ => Err(format!(
            "claims {rows} rows in {bytes} bytes: more than any recording has"
        )),
    }
}

/// Refuses a file with texts that become too long for its length; reads the given columns.
pub(crate) fn check_text(
    file: &File,
    metadata: &ParquetMetaData,
    columns: &[usize],
) -> Result<(), String> {
    let bytes = footer_length(file)?;
    let most = SPARE_TEXT.saturating_add(bytes.saturating_mul(TEXT_A_BYTE));
    let mut total = 0u64;
    for group in metadata.row_groups() {
        let chunks = columns.iter().map(|&index| group.column(index));
        for chunk in chunks.filter(|chunk| chunk.column_type() == Type::BYTE_ARRAY) {
            let length = chunk_bytes_most(file, chunk, group.num_rows())?;
            total = total.saturating_add(length);
            if total > most {
                return Err(format!(
                    "{bytes} bytes unpack to more than {most} bytes of text, in column {}: more than in any recording",
                    chunk.column_path()
                ));
            }
        }
    }
    Ok(())
}

/// Returns the length of a file, in bytes.
fn footer_length(file: &File) -> Result<u64, String> {
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    Ok(metadata.len())
}

/// Bytes of all texts of a column chunk, or somewhat more.
fn chunk_bytes_most(file: &File, chunk: &ColumnChunkMetaData, rows: i64) -> Result<u64, String> {
    let file = file.try_clone().map_err(|error| error.to_string())?;
    let rows = usize::try_from(rows).map_err(|error| error.to_string())?;
    let mut pages = SerializedPageReader::new(Arc::new(file), chunk, rows, None)
        .map_err(|error| error.to_string())?;
    let is_optional = chunk.column_descr().max_def_level() > 0;
    let (mut total, mut values, mut longest) = (0u64, 0, 0);
    while let Some(page) = pages.get_next_page().map_err(|error| error.to_string())? {
        if let Page::DictionaryPage { buf, .. } = &page {
            longest = longest_of(buf);
            continue;
        }
        values += page.num_values() as usize;
        if values > rows {
            return Err("has pages with more values than rows".to_owned());
        }
        let length = page_bytes_most(&page, is_optional, longest);
        total = total.saturating_add(length.ok_or("a page of text that ends too early")?);
    }
    Ok(total)
}

/// Returns the most bytes that one page can become; `None`: it is cut off. Each may be the longest
/// text of the dictionary, if there is one.
fn page_bytes_most(page: &Page, is_optional: bool, longest: u64) -> Option<u64> {
    let values = u64::from(page.num_values());
    match page.encoding() {
        Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
            Some(values.saturating_mul(longest))
        }
        Encoding::DELTA_BYTE_ARRAY => {
            let body = page_body(page, is_optional)?;
            let repeated = crate::delta::sum(body, values)?;
            Some(repeated.saturating_add(body.len() as u64))
        }
        _ => Some(page.buffer().len() as u64),
    }
}

/// Returns the bytes after the definition levels, which have their length in front.
fn page_body(page: &Page, is_optional: bool) -> Option<&[u8]> {
    let levels = match page {
        Page::DataPageV2 {
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => def_levels_byte_len.checked_add(*rep_levels_byte_len)? as usize,
        _ if is_optional => {
            let (length, _) = page.buffer().split_first_chunk::<LENGTH>()?;
            (u32::from_le_bytes(*length) as usize).checked_add(LENGTH)?
        }
        _ => 0,
    };
    page.buffer().get(levels..)
}

/// Returns the longest text of a dictionary, in bytes.
fn longest_of(mut texts: &[u8]) -> u64 {
    let mut longest = 0;
    while let Some((length, rest)) = texts.split_first_chunk::<LENGTH>() {
        let length = u32::from_le_bytes(*length);
        longest = longest.max(u64::from(length));
        texts = rest.get(length as usize..).unwrap_or_default();
    }
    longest
}

#[cfg(test)]
mod tests {
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::metadata::ParquetMetaDataReader;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    /// How a column is written.
    #[derive(Debug, Clone, Copy)]
    struct How {
        dictionary: bool,
        version: WriterVersion,
        optional: bool,
    }

    /// Writes a file of one column with this text `times` times.
    fn repeated(text: &str, times: usize, how: How) -> File {
        let kind = if how.optional { "optional" } else { "required" };
        let schema = format!("message m {{ {kind} binary a (UTF8); }}");
        let schema = Arc::new(parse_message_type(&schema).expect("a schema"));
        let properties = WriterProperties::builder()
            .set_writer_version(how.version)
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(how.dictionary);
        let properties = match how.dictionary {
            true => properties,
            false => properties.set_encoding(Encoding::DELTA_BYTE_ARRAY),
        };
        let file = tempfile::tempfile().expect("a file");
        let to = file.try_clone().expect("the same file");
        let mut writer =
            SerializedFileWriter::new(to, schema, Arc::new(properties.build())).expect("a writer");
        let mut group = writer.next_row_group().expect("a row group");
        let mut column = group.next_column().expect("a column").expect("one column");
        let texts = vec![ByteArray::from(text); times];
        let levels = vec![1; times];
        let levels = how.optional.then_some(&levels[..]);
        let batch = column
            .typed::<ByteArrayType>()
            .write_batch(&texts, levels, None);
        batch.expect("written");
        column.close().expect("closed");
        group.close().expect("closed");
        writer.close().expect("closed");
        file
    }

    /// Reads the metadata of a Parquet file.
    fn metadata(file: &File) -> ParquetMetaData {
        let mut reader = ParquetMetaDataReader::new();
        reader.try_parse(file).expect("a Parquet file");
        reader.finish().expect("its metadata")
    }

    const HOWS: [(bool, WriterVersion, bool); 6] = [
        (true, WriterVersion::PARQUET_1_0, false),
        (true, WriterVersion::PARQUET_2_0, true),
        (false, WriterVersion::PARQUET_1_0, false),
        (false, WriterVersion::PARQUET_1_0, true),
        (false, WriterVersion::PARQUET_2_0, false),
        (false, WriterVersion::PARQUET_2_0, true),
    ];

    #[test]
    fn one_text_for_many_rows_is_refused() {
        for (dictionary, version, optional) in HOWS {
            let how = How {
                dictionary,
                version,
                optional,
            };
            let text = "x".repeat(64 << 10);
            let fits = repeated(&text, 200, how);
            assert_eq!(check_text(&fits, &metadata(&fits), &[0]), Ok(()), "{how:?}");
            let bomb = repeated(&text, 400, how);
            let bytes = footer_length(&bomb).expect("its length");
            assert!(bytes < 4_000, "{how:?}: {bytes} bytes");
            let why = check_text(&bomb, &metadata(&bomb), &[0]).expect_err("a bomb");
            assert!(why.contains("of text, in column \"a\""), "{how:?}: {why}");
            // who does not read it does not care
            assert_eq!(check_text(&bomb, &metadata(&bomb), &[]), Ok(()));
        }
    }

    #[test]
    fn lengths_are_those_of_the_texts() {
        for (dictionary, version, optional) in HOWS {
            let how = How {
                dictionary,
                version,
                optional,
            };
            let file = repeated("/usr/lib/libc.so.6", 1_000, how);
            let metadata = metadata(&file);
            let group = metadata.row_group(0);
            let length =
                chunk_bytes_most(&file, group.column(0), group.num_rows()).expect("a length");
            // what is written beside them counts, too
            assert!((18_000..18_400).contains(&length), "{how:?}: {length}");
        }
    }

    #[test]
    fn more_rows_than_bytes_can_hold_are_refused() {
        let how = How {
            dictionary: true,
            version: WriterVersion::PARQUET_1_0,
            optional: false,
        };
        let fits = repeated("", 16 << 10, how);
        assert_eq!(check_rows(&fits, &metadata(&fits)), Ok(()));
        let bomb = repeated("", 1 << 20, how);
        let why = check_rows(&bomb, &metadata(&bomb)).expect_err("a bomb");
        assert!(why.contains("claims 1048576 rows in"), "{why}");
    }

    #[test]
    fn dictionaries_that_are_cut_have_the_texts_before() {
        let texts = [3u8, 0, 0, 0, b'a', b'b', b'c', 9, 0, 0, 0, b'd'];
        assert_eq!(longest_of(&texts), 9);
        assert_eq!(longest_of(&texts[..10]), 3);
        assert_eq!(longest_of(&[]), 0);
    }
}
