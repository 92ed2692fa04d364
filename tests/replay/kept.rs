//! The recordings that are kept, each in a folder of its own with what is known of it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::play::{Outcome, folder};
use crate::plays;
use testbed::report::Report;

/// Most bytes that a kept recording has, with its truth.
const MOST_BYTES: u64 = 60_000;
/// Most bytes of all together.
const MOST_BYTES_IN_ALL: u64 = 15_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/replay/recordings")
}

/// Returns whether a recording of the play is kept.
fn is_there(name: &str) -> bool {
    root().join(folder(name)).is_dir()
}

/// The kept recording of a play, and its truth.
pub fn read(name: &str) -> Result<Outcome, String> {
    if !is_there(name) {
        return Err(format!(
            "no recording of {name} is kept\n\
             hint: make one, as root: WHYLAT_PLAYS=refresh cargo test --workspace --test replay -- --exact {name}"
        ));
    }
    read_at(&root().join(folder(name)))
}

/// The recording in this folder, and its truth.
pub fn read_at(path: &Path) -> Result<Outcome, String> {
    let truth = path.join("truth.json");
    let text = fs::read_to_string(&truth).map_err(|why| format!("{}: {why}", truth.display()))?;
    let truth = serde_json::from_str(&text).map_err(|why| format!("{}: {why}", truth.display()))?;
    Ok(Outcome {
        report: Report::at(path.join("r.whylat")),
        truth,
    })
}

/// Returns whether the recording in this folder may be kept.
pub fn is_small(path: &Path) -> bool {
    bytes_below(path) <= MOST_BYTES
}

/// Why the recording in this folder may not be kept.
pub fn too_large(path: &Path) -> String {
    format!(
        "{} bytes: more than {MOST_BYTES}, which a kept recording may have\n\
         hint: make the play shorter, or say what it can do without",
        bytes_below(path)
    )
}

/// Puts the recording in `from` in the place of the play's kept one.
pub fn replace(name: &str, from: &Path) -> Result<(), String> {
    if !is_small(from) {
        return Err(format!("{name}: {}", too_large(from)));
    }
    let to = root().join(folder(name));
    let failed = |why| format!("cannot replace {}: {why}", to.display());
    if to.exists() {
        fs::remove_dir_all(&to).map_err(failed)?;
    }
    for file in files_below(from) {
        let target = to.join(file.strip_prefix(from).unwrap_or(&file));
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::copy(&file, target).map_err(failed)?;
    }
    Ok(())
}

/// Every play has a recording, every recording a play, and none is large.
pub fn check() {
    let plays = plays::all();
    let without = plays.iter().map(|play| play.name.as_str());
    let without: Vec<&str> = without.filter(|name| !is_there(name)).collect();
    assert!(
        without.is_empty(),
        "no recording of these is kept: {without:?}"
    );
    let plays: Vec<PathBuf> = plays.iter().map(|play| folder(&play.name)).collect();
    let root = root();
    let mut all = 0;
    for play in &plays {
        let bytes = bytes_below(&root.join(play));
        assert!(bytes <= MOST_BYTES, "{}: {bytes} bytes", play.display());
        all += bytes;
    }
    assert!(all <= MOST_BYTES_IN_ALL, "{all} bytes");
    let strangers: Vec<PathBuf> = files_below(&root)
        .into_iter()
        .filter(|file| !plays.iter().any(|play| file.starts_with(root.join(play))))
        .collect();
    assert!(strangers.is_empty(), "no play has these: {strangers:?}");
}

fn bytes_below(path: &Path) -> u64 {
    let lengths = files_below(path).into_iter();
    lengths
        .map(|file| fs::metadata(file).expect("its length").len())
        .sum()
}

fn files_below(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let entries = entries.map(|entry| entry.expect("an entry").path());
    let below = |entry: PathBuf| match entry.is_dir() {
        true => files_below(&entry),
        false => vec![entry],
    };
    entries.flat_map(below).collect()
}
