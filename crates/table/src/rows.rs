//! Rows of all tables together, as they go from whoever makes them to whoever keeps them. Made from the one list of
//! tables ([`for_each_table`](crate::for_each_table)): who adds a table there changes nothing here.

use crate::error::WriteError;
use crate::write::Writer;
use crate::{Columns, Table, for_each_table};

macro_rules! declare {
    ($($field:ident: $root:tt :: tables :: $row:ident),+ $(,)?) => {
        /// Rows of any tables: the columns of each, in the order in which its rows came.
        #[derive(Debug, Default)]
        pub struct RowSet {
            $(
                #[doc = concat!("Rows of table `", stringify!($field), "`.")]
                pub $field: <$root::tables::$row as Table>::Columns,
            )+
        }

        impl RowSet {
            /// Moves all rows of `other` to the end of these.
            pub fn append(&mut self, other: Self) {
                $(self.$field.append(other.$field);)+
            }

            /// Returns whether no table has a row.
            pub fn is_empty(&self) -> bool {
                $(self.$field.is_empty())&&+
            }

            /// Returns the tables in the order of the list, each with its number of rows.
            pub fn len_by_table(&self) -> impl Iterator<Item = (&'static str, usize)> {
                [$((<$root::tables::$row as Table>::NAME, self.$field.len())),+].into_iter()
            }
        }

        $(
            impl From<<$root::tables::$row as Table>::Columns> for RowSet {
                fn from(rows: <$root::tables::$row as Table>::Columns) -> Self {
                    Self { $field: rows, ..Self::default() }
                }
            }
        )+

        impl Writer {
            /// Adds rows to the open segments of their tables, as [`Writer::append`] does.
            ///
            /// # Errors
            /// The first failure: the rows of the other tables are added all the same.
            pub fn append_all(&mut self, rows: RowSet) -> Result<(), WriteError> {
                [$(self.append(rows.$field)),+].into_iter().collect()
            }
        }

        #[cfg(test)]
        const FIELDS: &[(&str, &str)] =
            &[$((stringify!($field), <$root::tables::$row as Table>::NAME)),+];
    };
}
for_each_table!(named declare);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Symbol, Symbols};

    /// Makes one symbol.
    fn one() -> Symbols {
        let mut rows = Symbols::default();
        rows.push(Symbol {
            time_ns: 7,
            object: "libc.so.6".to_owned(),
            build_id: None,
            offset: 11,
            level: 0,
            function: None,
            source: None,
            line: None,
        });
        rows
    }

    #[test]
    fn fields_have_names_of_tables() {
        for (field, table) in FIELDS {
            assert_eq!(field, table);
        }
    }

    #[test]
    fn rows_are_appended_by_table() {
        let mut rows = RowSet::default();
        assert!(rows.is_empty());
        rows.append(RowSet::from(one()));
        rows.append(one().into());
        assert!(!rows.is_empty());
        let filled: Vec<_> = rows.len_by_table().filter(|(_, rows)| *rows > 0).collect();
        assert_eq!(filled, [("symbols", 2)]);
    }
}
