//! Finds the files of a recording as text: its own, and those that `inherits.txt` in its folder names.
//!
//! A line of that file is the path of a file or of a folder, from where it is written, or `- NAME` for a file that this
//! recording does not have; `#` begins a comment. What is found first counts: own files, then those of the lines in their
//! order. Of a folder all files are inherited, with what it inherits itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::FixtureError;

/// Names the files that are inherited.
const INHERITS: &str = "inherits.txt";

/// More folders than any recording inherits one through the other: a circle.
const DEEPEST: usize = 16;

/// The files of a recording as text, by name.
///
/// # Errors
/// A folder or a file that is inherited cannot be read, or inherits itself.
pub fn text_files(folder: impl AsRef<Path>) -> Result<BTreeMap<String, PathBuf>, FixtureError> {
    list_files(folder.as_ref(), DEEPEST)
}

/// Lists the files of a folder and of those that it inherits; an error after `depth` folders.
fn list_files(folder: &Path, depth: usize) -> Result<BTreeMap<String, PathBuf>, FixtureError> {
    let error = |path: &Path, source| FixtureError::Io {
        path: path.to_owned(),
        source,
    };
    if depth == 0 {
        let source = io::Error::other("it inherits itself");
        return Err(error(&folder.join(INHERITS), source));
    }
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(|source| error(folder, source))? {
        let path = entry.map_err(|source| error(folder, source))?.path();
        if path.is_file() {
            found.insert(name(&path), path);
        }
    }
    let Some(list) = found.remove(INHERITS) else {
        return Ok(found);
    };
    let mut without = BTreeSet::new();
    let text = fs::read_to_string(&list).map_err(|source| error(&list, source))?;
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("- ") {
            without.insert(name.to_owned());
            continue;
        }
        let path = folder.join(line);
        let inherited = match path.is_dir() {
            true => list_files(&path, depth - 1)?,
            false if path.is_file() => BTreeMap::from([(name(&path), path)]),
            false => return Err(error(&path, io::ErrorKind::NotFound.into())),
        };
        for (name, path) in inherited {
            if !without.contains(&name) {
                found.entry(name).or_insert(path);
            }
        }
    }
    Ok(found)
}

/// Returns the last part of a path.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
