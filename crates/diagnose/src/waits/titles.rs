//! Titles of the objects of waits, batch by batch.

use std::collections::HashMap;

use table::Columns;
use table::tables::Waits;

use super::keys::ObjectKey;
use super::names::NameTable;

/// Titles of objects. Of objects with one name, as epoll sets that had a descriptor one after another, the second is
/// called `… (2)`.
#[derive(Debug)]
pub struct ObjectTitles<'a> {
    names: &'a NameTable,
    titles: HashMap<ObjectKey, String>,
    namesakes: HashMap<String, u32>,
}

impl<'a> ObjectTitles<'a> {
    /// Begins with no title.
    pub fn new(names: &'a NameTable) -> Self {
        Self {
            names,
            titles: HashMap::new(),
            namesakes: HashMap::new(),
        }
    }

    /// Returns the object of each wait, as the report of waits by object names it, without the use of a futex.
    pub fn wait_titles(&mut self, rows: &Waits) -> Vec<String> {
        let keys = (0..rows.len()).map(|row| ObjectKey::from_wait(rows, row));
        keys.map(|key| self.object_title(key)).collect()
    }

    /// Returns the title of an object; makes it once.
    fn object_title(&mut self, key: ObjectKey) -> String {
        let title = self.titles.entry(key).or_insert_with(|| {
            let title = self.names.object(key).title();
            let number = self.namesakes.entry(title.clone()).or_default();
            *number += 1;
            match *number {
                1 => title,
                number => format!("{title} ({number})"),
            }
        });
        title.clone()
    }
}
