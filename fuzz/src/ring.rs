//! The ring that an instrumented program writes ITT records into.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use itt::{Ring, RingShape};

use super::files::scratch;

/// The smallest ring that there can be.
pub const SHAPE: RingShape = RingShape {
    chunks: 2,
    definition_chunks: 2,
    chunk_bytes: 8192,
};

/// Bytes that a program may write over anything in the ring.
pub fn itt_ring(bytes: &[u8]) {
    let scratch = scratch();
    let mut ring = Ring::create(&scratch.path().join("ring"), SHAPE).expect("a ring");
    let file = OpenOptions::new().write(true).open(ring.path());
    let file = file.expect("opened");
    let length = file.metadata().expect("its length").len();
    let within = bytes
        .len()
        .min(usize::try_from(length).unwrap_or(usize::MAX));
    file.write_all_at(&bytes[..within], 0).expect("written");
    probe::fuzz::itt_rows(&mut ring);
}
