//! One pass over a recording for several readers: tables in a given order, each read once, every batch handed to all
//! who want it.

use crate::{Recording, Table, for_each_table};

macro_rules! declare {
    ($($field:ident: $root:tt :: tables :: $name:ident),+ $(,)?) => {
        /// A table of a recording.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum TableId {
            $(
                #[doc = concat!("The table of [`", stringify!($name), "`](crate::tables::", stringify!($name), ").")]
                $name,
            )+
        }

        impl TableId {
            /// Every table, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the table's name in recordings and in `docs/tables.md`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => <$root::tables::$name as Table>::NAME,)+
                }
            }
        }

        /// Some rows of one table, in the order in which they were sealed.
        #[derive(Debug, Clone, Copy)]
        pub enum Rows<'a> {
            $(
                #[doc = concat!("Of the table of [`", stringify!($name), "`](crate::tables::", stringify!($name), ").")]
                $name(&'a <$root::tables::$name as Table>::Columns),
            )+
        }

        impl Rows<'_> {
            /// Returns the table of the rows.
            pub const fn table(&self) -> TableId {
                match self {
                    $(Self::$name(_) => TableId::$name,)+
                }
            }
        }

        impl Recording {
            /// Calls `take` with each batch of a table; returns the number of rows.
            fn feed_table(&self, table: TableId, mut take: impl FnMut(Rows<'_>)) -> u64 {
                match table {
                    $(TableId::$name => self.scan::<$root::tables::$name>(|rows| take(Rows::$name(&rows))),)+
                }
            }
        }
    };
}
for_each_table!(named declare);

/// Reads rows of some tables.
pub trait TableConsumer {
    /// Returns whether the consumer reads rows of this table.
    fn is_reader_of(&self, table: TableId) -> bool;

    /// Adds the next rows. They are never of a table that it does not read.
    fn add_rows(&mut self, rows: Rows<'_>);
}

impl Recording {
    /// Reads `tables` in this order, each once, and hands every batch to each of `consumers` that reads it. A table
    /// without a consumer is not read.
    ///
    /// Damaged files are left out and added to [`Recording::problems`].
    pub fn feed(&self, tables: &[TableId], consumers: &mut [&mut dyn TableConsumer]) {
        for table in tables {
            let mut takers: Vec<&mut &mut dyn TableConsumer> = consumers
                .iter_mut()
                .filter(|consumer| consumer.is_reader_of(*table))
                .collect();
            if !takers.is_empty() {
                self.feed_table(*table, |rows| {
                    takers.iter_mut().for_each(|taker| taker.add_rows(rows));
                });
            }
        }
    }
}

/// `None` reads no table.
impl<C: TableConsumer> TableConsumer for Option<C> {
    fn is_reader_of(&self, table: TableId) -> bool {
        self.as_ref()
            .is_some_and(|consumer| consumer.is_reader_of(table))
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        if let Some(consumer) = self {
            consumer.add_rows(rows);
        }
    }
}
