//! Every committed input, and a fixed number of changes of each, through every fuzz target: no panic, no input that takes
//! long, no more memory than 512 MB. The corpus keeps what the long runs of `make fuzz` find, so that it stays fixed.
//!
//! Built as a test of the `whylat` package, because the fuzz crate itself is no part of the workspace.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

extern crate table as whylat_table;

#[path = "../../crates/table/tests/common/mod.rs"]
mod common;
#[path = "seeds.rs"]
mod seeds;
#[path = "../src/lib.rs"]
mod targets;

/// Changed inputs of each target. More, and others, with `WHYLAT_FUZZ_ROUNDS` and `WHYLAT_FUZZ_SEED`: a fuzzer for
/// machines on which libFuzzer is not built, without its knowledge of what an input reaches.
const CHANGED: usize = 400;
/// For one input. Under load: a thousand times what they take.
const LONGEST: Duration = Duration::from_secs(10);
/// As `scripts/fuzz` has it.
const MOST_RESIDENT_KB: u64 = 512 << 10;

/// Uniform numbers that are the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let place = Path::new(seeds::CORPUS).join(target);
    let entries = fs::read_dir(&place).unwrap_or_else(|why| panic!("{}: {why}", place.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", place.display());
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("read");
        (path, bytes)
    };
    files.into_iter().map(read).collect()
}

/// One to four changes, each as a fuzzer makes them.
fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => put_length(&mut bytes[at..], random),
            3 => bytes.truncate(at),
            4 => {
                let end = (at + random.below(64)).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            _ => {
                let from = random.below(other.len());
                let piece = &other[from..(from + random.below(256)).min(other.len())];
                let end = (at + piece.len()).min(bytes.len());
                bytes.splice(at..end, piece.iter().copied());
            }
        }
    }
}

/// Writes a number at which lengths and counts go wrong.
fn put_length(bytes: &mut [u8], random: &mut Random) {
    const EDGES: [u64; 6] = [0, 0x7f, 0x7fff_ffff, 0x8000_0000, u32::MAX as u64, u64::MAX];
    let number = EDGES[random.below(EDGES.len())].to_le_bytes();
    let width = [1, 2, 4, 8][random.below(4)].min(bytes.len());
    bytes[..width].copy_from_slice(&number[..width]);
}

/// Runs a target; keeps an input that fails where a person finds it.
fn run(name: &str, target: targets::Target, bytes: &[u8], what: &str) {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| target(bytes)));
    let took = start.elapsed();
    if outcome.is_err() || took > LONGEST {
        let kept = std::env::temp_dir().join(format!("whylat-fuzz-{name}-{}", std::process::id()));
        fs::write(&kept, bytes).expect("kept");
        panic!(
            "{name}: {what} failed after {took:?}; the input is {}",
            kept.display()
        );
    }
}

fn most_resident_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("own status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("VmHWM")
}

/// A number that the environment gives.
fn given(name: &str, default: usize) -> usize {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn every_reader_survives_hostile_input() {
    let rounds = given("WHYLAT_FUZZ_ROUNDS", CHANGED);
    let seed = given("WHYLAT_FUZZ_SEED", 0) as u64;
    for (index, (name, target)) in targets::TARGETS.iter().enumerate() {
        let files = corpus(name);
        let start = Instant::now();
        for (path, bytes) in &files {
            run(name, *target, bytes, &path.display().to_string());
        }
        let mut random = Random(seed << 8 | index as u64);
        for round in 0..rounds {
            let (path, bytes) = &files[random.below(files.len())];
            let (_, other) = &files[random.below(files.len())];
            let mut changed = bytes.clone();
            change(&mut changed, other, &mut random);
            run(
                name,
                *target,
                &changed,
                &format!("round {round}, of {}", path.display()),
            );
        }
        let resident_kb = most_resident_kb();
        let took = start.elapsed();
        eprintln!(
            "{name}: {} inputs and {rounds} changed ones in {took:.1?}, {resident_kb} kB",
            files.len()
        );
        assert!(
            resident_kb <= MOST_RESIDENT_KB,
            "{name}: {resident_kb} kB resident"
        );
    }
}

/// Targets and their binaries are the same.
#[test]
fn every_target_has_a_program() {
    let programs =
        fs::read_dir(Path::new(seeds::CORPUS).join("../fuzz_targets")).expect("programs");
    let mut programs: Vec<String> = programs
        .map(|entry| {
            entry
                .expect("an entry")
                .path()
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    programs.sort();
    let mut names: Vec<String> = targets::TARGETS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    names.sort();
    assert_eq!(programs, names);
}
