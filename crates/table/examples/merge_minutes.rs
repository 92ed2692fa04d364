//! Merges files of one table of a fleet's dataset as an agent does when their hour has ended.
//!
//! `cargo run --release -p whylat-table --example merge_minutes OUTPUT FILE…`

use std::fs::File;
use std::io::{Error, Result};
use std::path::PathBuf;

use whylat_table::dataset;
use whylat_table::{Table, for_each_fleet_table};

fn main() -> Result<()> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let output = paths.next().ok_or_else(|| Error::other("no output"))?;
    let mut files: Vec<PathBuf> = paths.collect();
    files.sort();
    let sink = File::create(output)?;
    let is_of = |name: &str| {
        let first = files.first().map(|file| file.to_string_lossy());
        first.is_some_and(|path| path.contains(&format!("/{name}/")))
    };
    macro_rules! by_name {
        ($($row:ty),+ $(,)?) => {
            $(if is_of(<$row>::NAME) {
                let merged = dataset::merge::<<$row as Table>::Columns, _>(&files, sink);
                return merged.map(drop).map_err(Error::other);
            })+
        };
    }
    for_each_fleet_table!(by_name);
    Err(Error::other("these files are of no table of a fleet"))
}
