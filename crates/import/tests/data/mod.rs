//! Finds the sample data, which is not in the repository.

use std::path::PathBuf;

/// Returns a sample file below `WHYLAT_TEST_DATA`; `None`, printed on stderr: it is missing.
pub fn sample(path: &str) -> Option<Vec<u8>> {
    let beside = || {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        Some(root.canonicalize().ok()?.parent()?.join("shared/data"))
    };
    let data = std::env::var_os("WHYLAT_TEST_DATA").map(PathBuf::from);
    let file = data.or_else(beside)?.join(path);
    match std::fs::read(&file) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            eprintln!("skipped: {}: {error}", file.display());
            None
        }
    }
}
