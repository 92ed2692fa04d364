//! Whether the columns of a file are such as a table has: one name, one value a row, of the type that is declared. Asked
//! before any page is decoded, as a column that nests, repeats or is of another type may become any length, which the
//! number of rows and the lengths of texts do not show.
//!
//! Why it exists: recordings come from other people and from damaged disks, and `parquet` itself trusts what a file says.

use arrow_schema::{DataType, SchemaRef};
use parquet::basic::Type;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

/// Most columns that are read of a file, several times those of the widest table: with numbers in each, a batch of them
/// has 64 MiB.
const MOST_COLUMNS: usize = 512;

/// Returns where the wanted columns are in a file; refuses a column that no table has.
pub(crate) fn columns(
    file: &SchemaDescriptor,
    wanted: Option<&SchemaRef>,
) -> Result<Vec<usize>, String> {
    let mut indices = Vec::new();
    for (index, column) in file.columns().iter().enumerate() {
        // what lies within a column of this name is read, too
        let name = column.path().parts().first().map_or("", String::as_str);
        let declared = match wanted {
            Some(schema) => match schema.column_with_name(name) {
                Some((_, field)) => Some(field.data_type()),
                None => continue,
            },
            None => None,
        };
        check(column, declared)?;
        indices.push(index);
    }
    if indices.len() > MOST_COLUMNS {
        let count = indices.len();
        return Err(format!(
            "has {count} columns: more than {MOST_COLUMNS}, and than any table"
        ));
    }
    Ok(indices)
}

/// Checks that a column has the declared type. Without a declaration, it must have a type that some table has.
fn check(column: &ColumnDescriptor, declared: Option<&DataType>) -> Result<(), String> {
    let path = column.path();
    if path.parts().len() != 1 {
        return Err(format!("column {path} is nested, as in no table"));
    }
    if column.max_rep_level() > 0 {
        return Err(format!("column {path} is repeated, as in no table"));
    }
    let found = column.physical_type();
    match declared {
        Some(kind) if stored_type(kind) == Some(found) => Ok(()),
        Some(kind) => Err(format!("column {path} is {found}, expected {kind}")),
        None if matches!(found, Type::FIXED_LEN_BYTE_ARRAY | Type::INT96) => {
            Err(format!("column {path} is {found}, as in no table"))
        }
        None => Ok(()),
    }
}

/// Returns the type in which a file stores values of a type; `None`: no table declares it.
fn stored_type(kind: &DataType) -> Option<Type> {
    Some(match kind {
        DataType::Boolean => Type::BOOLEAN,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::Int32 => Type::INT32,
        DataType::UInt64 | DataType::Int64 => Type::INT64,
        DataType::Float64 => Type::DOUBLE,
        DataType::Utf8 => Type::BYTE_ARRAY,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use parquet::arrow::ArrowSchemaConverter;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{
        ByteArray, ByteArrayType, DataType as Physical, FixedLenByteArray, FixedLenByteArrayType,
        Int64Type,
    };
    use parquet::file::properties::{EnabledStatistics, WriterProperties};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::decode::Batches;
    use crate::fleet::{FleetProblem, FleetProblems};
    use crate::manifest::Segment;
    use crate::{Columns, Table, dataset, for_each_fleet_table, for_each_table};

    /// Most bytes of the files here, which would become some thousand times as long.
    const SMALL_BYTES: u64 = 16 << 10;

    /// Makes a schema of these fields.
    fn descriptor(fields: &str) -> SchemaDescriptor {
        let schema = parse_message_type(&format!("message m {{ {fields} }}")).expect("a schema");
        SchemaDescriptor::new(Arc::new(schema))
    }

    /// Writes a file of one column with this value `times` times, in one row each or, if
    /// `repeated`, in one.
    fn write<T: Physical>(path: &Path, fields: &str, value: &T::T, times: usize, repeated: bool) {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::None)
            .build();
        let file = File::create_new(path).expect("a file");
        let schema = descriptor(fields).root_schema_ptr();
        let mut writer =
            SerializedFileWriter::new(file, schema, Arc::new(properties)).expect("a writer");
        let mut group = writer.next_row_group().expect("a row group");
        let mut column = group.next_column().expect("a column").expect("one column");
        let values = vec![value.clone(); times];
        let defined = vec![1; times];
        let repetitions: Vec<_> = (0..times).map(|index| i16::from(index > 0)).collect();
        let written = column.typed::<T>().write_batch(
            &values,
            repeated.then_some(&defined),
            repeated.then_some(&repetitions),
        );
        written.expect("written");
        column.close().expect("closed");
        group.close().expect("closed");
        writer.close().expect("closed");
        let bytes = path.metadata().expect("its length").len();
        assert!(bytes < SMALL_BYTES, "{fields}: {bytes} bytes");
    }

    /// Writes small files that become large: returns path, number of rows, and why each is refused.
    fn bombs(dir: &Path) -> [(PathBuf, u64, &'static str); 3] {
        let nested = dir.join("nested.parquet");
        let text = ByteArray::from(vec![b'x'; 64 << 10]);
        let fields = "required group host { required binary x; }";
        write::<ByteArrayType>(&nested, fields, &text, 200, false);
        let fixed = dir.join("fixed.parquet");
        let block = FixedLenByteArray::from(ByteArray::from(vec![0; 1 << 20]));
        let fields = "required fixed_len_byte_array(1048576) conn_id;";
        write::<FixedLenByteArrayType>(&fixed, fields, &block, 16, false);
        let repeated = dir.join("repeated.parquet");
        let fields = "repeated int64 conn_id;";
        write::<Int64Type>(&repeated, fields, &7, 4 << 20, true);
        [
            (nested, 200, r#"column "host.x" is nested"#),
            (fixed, 16, r#"column "conn_id" is FIXED_LEN_BYTE_ARRAY"#),
            (repeated, 1, r#"column "conn_id" is repeated"#),
        ]
    }

    /// Makes the manifest's entry of a file with this many rows.
    fn segment(rows: u64) -> Segment {
        Segment {
            table: FleetProblem::NAME.to_owned(),
            file: String::new(),
            rows,
            first_ns: 0,
            last_ns: 0,
            bytes: 0,
            blake3: String::new(),
        }
    }

    #[test]
    fn small_files_that_become_large_are_refused_before_a_row_is_made() {
        let dir = tempfile::tempdir().expect("a directory");
        let schema = FleetProblems::schema();
        for (path, rows, why) in bombs(dir.path()) {
            for wanted in [None, Some(&schema)] {
                let opened = Batches::open(&path, &segment(rows), wanted);
                let cause = opened.err().unwrap_or_else(|| panic!("opened: {why}"));
                assert!(cause.starts_with(why), "{cause}");
            }
            let problem = dataset::read::<FleetProblems>(&path).expect_err("a bomb");
            assert!(problem.cause.starts_with(why), "{problem}");
            assert_eq!(problem.file, path);
        }
    }

    #[test]
    fn columns_that_are_not_read_are_not_examined() {
        let file = descriptor(
            "required binary host; required group x { required binary host; } repeated int64 y;
             required fixed_len_byte_array(1048576) z;",
        );
        let wanted = FleetProblems::schema();
        assert_eq!(columns(&file, Some(&wanted)), Ok(vec![0]));
        assert!(columns(&file, None).is_err());
    }

    #[test]
    fn other_types_than_the_declared_are_refused() {
        let wanted = FleetProblems::schema();
        for (fields, why) in [
            ("required int64 host;", r#""host" is INT64, expected Utf8"#),
            ("required int96 conn_id;", r#""conn_id" is INT96, expected"#),
            ("required binary conn_id;", r#""conn_id" is BYTE_ARRAY, "#),
        ] {
            let cause = columns(&descriptor(fields), Some(&wanted)).expect_err(fields);
            assert!(cause.contains(why), "{cause}");
        }
        // of a table that is not known, those that no table has
        assert!(columns(&descriptor("required int96 a;"), None).is_err());
        let known = "optional boolean a; required int32 b; required double c; required binary d;";
        assert_eq!(columns(&descriptor(known), None), Ok(vec![0, 1, 2, 3]));
    }

    #[test]
    fn one_name_many_times_is_refused() {
        let fields = |count| "required int64 conn_id;".repeat(count);
        let wanted = FleetProblems::schema();
        for wanted in [None, Some(&wanted)] {
            let most = columns(&descriptor(&fields(MOST_COLUMNS)), wanted).expect("as many");
            assert_eq!(most.len(), MOST_COLUMNS);
            let why = columns(&descriptor(&fields(MOST_COLUMNS + 1)), wanted);
            assert!(why.is_err_and(|why| why.contains("has 513 columns")));
        }
    }

    /// Checks that every column is accepted as its own writer stores it.
    fn is_accepted<T: Table>() {
        let schema = T::Columns::schema();
        let file = ArrowSchemaConverter::new().convert(&schema);
        let all = (0..T::FIELDS.len()).collect::<Vec<_>>();
        assert!(all.len() <= MOST_COLUMNS / 4, "{}", T::NAME);
        let file = file.expect("a schema");
        assert_eq!(
            columns(&file, Some(&schema)),
            Ok(all.clone()),
            "{}",
            T::NAME
        );
        assert_eq!(columns(&file, None), Ok(all), "{}", T::NAME);
    }

    #[test]
    fn every_table_is_accepted() {
        macro_rules! accepted {
            ($($row:ty),+ $(,)?) => {$( is_accepted::<$row>(); )+};
        }
        for_each_table!(accepted);
        for_each_fleet_table!(accepted);
    }
}
