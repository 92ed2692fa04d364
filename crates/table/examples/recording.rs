//! A recording of its text: what tests give to programs that read recordings.
//!
//! `cargo run --release -p whylat-table --example recording TEXT_DIR OUT_DIR`

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [text_dir, out_dir] = arguments.as_slice() else {
        return Err("usage: recording TEXT_DIR OUT_DIR".into());
    };
    Ok(whylat_table::write_fixture(text_dir, out_dir)?)
}
