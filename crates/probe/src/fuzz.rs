//! Ways in for the fuzz targets (`fuzz/`) to readers of what others made: kernel replies, program files, and the ring
//! that a program writes into. Not for other callers.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use table::RowSet;

use crate::itt::Assembler;
use crate::stacks::PerfMap;
use crate::tcp_stats::Batch;

/// Reads a `sock_diag` batch as a poll does; returns the number of messages.
pub fn netlink_batch(bytes: &[u8]) -> usize {
    // the request number of the corpus
    let sequence = 5;
    let batch = Batch {
        rest: bytes,
        sequence,
        netns: 1,
        time_ns: 2,
    };
    batch.map(|item| format!("{item:?}")).count()
}

/// Reads the USDT notes of a program file; returns the number of arguments.
pub fn elf_notes(path: &Path) -> usize {
    let Ok(elf) = crate::usdt::Elf::read(path) else {
        return 0;
    };
    let arguments = elf.notes.iter().map(|note| {
        let count = note.places().count();
        for index in 0..count {
            note.is_signed(index);
            note.constant(index);
        }
        count
    });
    arguments.sum()
}

/// Unwinds a stack through a file mapped at `addresses`; returns the number of frames.
pub fn unwind_code(file: File, addresses: Range<u64>, stack: &[u8]) -> usize {
    crate::stacks::unwind_through(file, addresses, stack)
}

/// Reads a map of generated code, in two pieces; returns the number of functions.
pub fn perf_map(bytes: &[u8]) -> usize {
    let mut map = PerfMap::default();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    map.add(first);
    map.add(second);
    for address in [0, 0x1000, u64::MAX] {
        if let Some((start, name)) = map.find(address) {
            assert!(start <= address && !name.is_empty());
        }
    }
    map.len()
}

/// Makes rows of a ring's records.
pub fn itt_rows(ring: &mut itt::Ring) -> RowSet {
    let mut assembler = Assembler::default();
    for _reading in 0..3 {
        ring.drain(|record| assembler.add_record(record));
        assembler.forget_early_ends();
    }
    assembler.finish();
    // counts must not overflow whatever the program wrote over its losses
    let _counts = assembler.counts(ring.losses());
    assembler.take_rows()
}
