//! Where the collector's file is, and whether programs can load it.

use std::path::{Path, PathBuf};

use ::itt::{COLLECTOR_VARIABLE, check_loadable};

use super::refusal::Refusal;

/// Environment variable that names the collector's file; it goes before the places where it is
/// installed. `crates/itt/README.md` has the table of all variables.
pub const COLLECTOR_OVERRIDE: &str = "WHYLAT_ITT_COLLECTOR";

const FILE_NAME: &str = "libwhylat_itt.so";
/// Directories in which it may be, from that of the program.
const PLACES: [&str; 2] = [".", "../lib/whylat"];

/// The collector's file, which can be loaded.
///
/// # Errors
/// When the user has a collector of his own, there is no file, or it cannot be loaded.
pub fn find() -> Result<PathBuf, Refusal> {
    if let Some(own) = std::env::var_os(COLLECTOR_VARIABLE).filter(|own| !own.is_empty()) {
        return Err(Refusal {
            why: format!(
                "{COLLECTOR_VARIABLE} names another collector, {}, which was left alone",
                Path::new(&own).display()
            ),
            remedy: format!("unset {COLLECTOR_VARIABLE}"),
        });
    }
    let path = match std::env::var_os(COLLECTOR_OVERRIDE).filter(|path| !path.is_empty()) {
        Some(path) => std::path::absolute(path).map_err(|error| Refusal::from_error(&error))?,
        None => find_installed()?,
    };
    check_loadable(&path).map_err(|error| Refusal::from_error(&error))?;
    Ok(path)
}

/// Finds the collector's file beside this program or in its library folder.
fn find_installed() -> Result<PathBuf, Refusal> {
    let program = std::env::current_exe().map_err(|error| Refusal::from_error(&error))?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    in_places(directory).ok_or_else(|| Refusal {
        why: format!(
            "there is no {FILE_NAME} in {} or its {}",
            directory.display(),
            PLACES[1]
        ),
        remedy: format!(
            "put {FILE_NAME} beside whylat (`make build` does), or set {COLLECTOR_OVERRIDE}=/path/{FILE_NAME}"
        ),
    })
}

/// Returns the collector's file in one of the usual places; None if it is in none.
fn in_places(directory: &Path) -> Option<PathBuf> {
    let paths = PLACES.map(|place| directory.join(place).join(FILE_NAME));
    // Without `..`, which means another directory once one above is moved.
    paths.iter().find_map(|path| path.canonicalize().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_the_program_goes_before_one_in_lib() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (bin, lib) = (root.join("bin"), root.join("lib/whylat"));
        for directory in [&bin, &lib] {
            std::fs::create_dir_all(directory).unwrap();
        }
        assert_eq!(in_places(&bin), None);
        for directory in [&lib, &bin] {
            let file = directory.join(FILE_NAME);
            std::fs::write(&file, "").unwrap();
            assert_eq!(in_places(&bin), Some(file));
        }
    }
}
