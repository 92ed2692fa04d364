//! The reader against what is no ring, and against rings that were scribbled over.

mod support;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use support::{SMALL, Session};
use tempfile::TempDir;
use whylat_itt::{Ring, RingShape};

const TINY: RingShape = RingShape {
    chunks: 2,
    definition_chunks: 2,
    chunk_bytes: 8192,
};

/// Where the parts of a tiny ring begin, in bytes: `layout.rs` has the picture.
const CONTROLS_AT: u64 = 8192;
const CHUNKS_AT: u64 = CONTROLS_AT + 4096;

#[test]
fn impossible_shapes_are_refused() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("ring");
    let shapes = [
        RingShape { chunks: 0, ..TINY },
        RingShape {
            definition_chunks: 0,
            ..TINY
        },
        RingShape {
            chunk_bytes: 4096,
            ..TINY
        },
        RingShape {
            chunk_bytes: 8200,
            ..TINY
        },
        RingShape {
            chunks: usize::MAX,
            ..TINY
        },
        RingShape {
            chunk_bytes: usize::MAX - 4095,
            ..TINY
        },
    ];
    for shape in shapes {
        let error = Ring::create(&path, shape).expect_err("refused").to_string();
        assert!(error.contains("\nhint: "), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("ring");
    std::fs::write(&path, b"mine").expect("written");
    assert!(Ring::create(&path, TINY).is_err());
    assert_eq!(std::fs::read(&path).expect("read"), b"mine");
}

/// Generates words that sometimes look valid: small numbers, heads, owners.
fn word() -> impl Strategy<Value = u64> {
    let head = (1..36u64, 0..9u64, 0..40u64, 0..5u64)
        .prop_map(|(code, detail, words, id)| code | detail << 8 | words << 16 | id << 32);
    prop_oneof![
        any::<u64>(),
        0..20u64,
        8000..8200u64,
        head,
        Just(1 << 63 | 1 << 32 | 1)
    ]
}

/// Generates bytes of whole words.
fn words(count: usize) -> impl Strategy<Value = Vec<u8>> {
    let words = prop::collection::vec(word(), count);
    words.prop_map(|words| words.into_iter().flat_map(u64::to_ne_bytes).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_chunks_do_not_break_reader(
        controls in words(4 * 8),
        chunks in prop::collection::vec(words(1024), 4),
    ) {
        let dir = TempDir::new().expect("a directory");
        let mut ring = Ring::create(&dir.path().join("ring"), TINY).expect("a ring");
        let file = OpenOptions::new().write(true).open(ring.path()).expect("opened");
        for (index, chunk) in chunks.iter().enumerate() {
            file.write_all_at(chunk, CHUNKS_AT + index as u64 * 8192).expect("written");
        }
        for _ in 0..3 {
            file.write_all_at(&controls, CONTROLS_AT).expect("written");
            ring.drain(|record| drop(format!("{record:?}")));
        }
        ring.losses();
    }

    #[test]
    fn random_bytes_do_not_break_reader(
        at in 0..CHUNKS_AT + 4 * 8192 - 64,
        bytes in words(8),
    ) {
        let dir = TempDir::new().expect("a directory");
        let mut ring = Ring::create(&dir.path().join("ring"), TINY).expect("a ring");
        let file = OpenOptions::new().write(true).open(ring.path()).expect("opened");
        file.write_all_at(&bytes, at).expect("written");
        ring.drain(drop);
        ring.losses();
    }
}

/// Whole records; some of them are then changed: closer to real damage than noise.
#[test]
fn damaged_records_are_refused_and_the_rest_is_read() {
    let session = Session::new(SMALL);
    for mode in ["typed", "deltas", "spans", "attached", "sync"] {
        assert!(session.run([mode]).success());
    }
    let written = std::fs::read(session.ring.path()).expect("read");
    let dir = TempDir::new().expect("a directory");
    let mut copies = 0;
    for (index, _) in written
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte != 0)
        .step_by(41)
    {
        let path = dir.path().join(copies.to_string());
        let mut ring = Ring::create(&path, SMALL).expect("a ring");
        let file = OpenOptions::new().write(true).open(&path).expect("opened");
        let mut damaged = written.clone();
        damaged[index] ^= 0xff;
        file.write_all_at(&damaged, 0).expect("written");
        let records = ring.drain(drop);
        // The first word of the file and the like: nothing to read is as good.
        assert!(records <= 100, "{records} records at byte {index}");
        std::fs::remove_file(&path).expect("removed");
        copies += 1;
    }
    assert!(copies > 50, "{copies} copies");
}
