//! Makes a recording of one as text: `recording FOLDER OUTPUT`, where FOLDER is such as those in `tests/golden`. For
//! tests that need a recording on disk.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [folder, output] = given.as_slice() else {
        return Err("usage: recording FOLDER OUTPUT".into());
    };
    whylat_table::write_fixture(Path::new(folder), Path::new(output))?;
    Ok(())
}
