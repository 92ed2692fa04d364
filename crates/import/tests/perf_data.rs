//! A perf.data made by hand: header, side records, and an Intel PT trace of one CPU.

mod common;
mod data;

use common::{check, rows};
use proptest::prelude::*;
use table::ActivityKind;

const KERNEL: u64 = 0xffff_ffff_8100_0000;

/// Returns words as little-endian bytes.
fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Joins two halves of a word.
fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Makes a record of perf.
fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(misc.to_le_bytes());
    bytes.extend((body.len() as u16 + 8).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// A name, padded to whole words.
fn name(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((text.len() / 8 + 1) * 8, 0);
    bytes
}

/// Makes a record of the kernel: body, and pid, tid, time and CPU at its end.
fn kernel_record(kind: u32, misc: u16, body: &[u8], time_ns: u64, thread: (u32, u32)) -> Vec<u8> {
    let stamp = words(&[halves(thread.0, thread.1), time_ns, 1]);
    record(kind, misc, &[body, &stamp].concat())
}

/// Makes a packet with a whole address.
fn target(header: u8, address: u64) -> Vec<u8> {
    let mut bytes = vec![header | 6 << 5];
    bytes.extend(address.to_le_bytes());
    bytes
}

/// Makes a trace of Intel PT.
fn packets() -> Vec<u8> {
    let psb = [0x02, 0x82].repeat(8);
    let tsc = [0x19, 0xe8, 0x03, 0, 0, 0, 0, 0]; // 1000
    let tma = [0x02, 0x73, 0x10, 0, 0, 0, 0]; // crystal at 16
    let mtc = |count| vec![0x59, count];
    [
        psb,
        tsc.to_vec(),
        tma.to_vec(),
        vec![0x02, 0x23],
        target(0x11, 0x40_1000), // TIP.PGE: the trace begins in app
        mtc(0x20),               // 16 ticks later: 1032
        target(0x1d, 0x40_1000), // FUP: something happened right there
        target(0x0d, KERNEL),    // TIP: an interrupt
        mtc(0x30),               // 1064
        vec![0x04],              // TNT: needs the kernel's code
        mtc(0x50),               // 1128
        target(0x0d, 0x40_2000), // TIP: in app again
        vec![0x02, 0xf3],        // OVF
    ]
    .concat()
}

/// Makes the records of a file with one trace.
fn records() -> Vec<u8> {
    let thread = (70, 71);
    let packets = packets();
    let mapping = words(&[halves(70, 71), 0x40_1000, 0x2000, 0, 0, 0, 0, 0]);
    let info = words(&[1, 8, 0, 1, 0, 1, 0, 0, 3, 0, 1, 0, 0xf << 14, 2, 1, 0, 10]);
    let trace = words(&[packets.len() as u64, 0, 1000, halves(1, 71), 1]);
    [
        record(70, 0, &info),
        kernel_record(
            3,
            0,
            &[words(&[halves(70, 71)]), name("app")].concat(),
            800,
            thread,
        ),
        kernel_record(10, 2, &[mapping, name("/bin/app")].concat(), 850, thread),
        // CPU 1 goes from the idle task to app, and back.
        kernel_record(15, 1 << 13, &words(&[halves(70, 71)]), 900, (0, 0)),
        kernel_record(15, 0, &words(&[halves(0, 0)]), 905, thread),
        kernel_record(15, 1 << 13, &words(&[halves(0, 0)]), 1200, thread),
        record(71, 0, &trace),
        packets,
        record(68, 0, &[]),
    ]
    .concat()
}

/// Makes the attributes of an event.
fn attr() -> Vec<u8> {
    // type and size, config, period, sample_type (TID, TIME, CPU), read_format, sample_id_all
    words(&[halves(8, 64), 0, 1, 0x86, 0, 1 << 18, 0, 0])
}

/// Makes a file as `perf record` writes it.
fn file() -> Vec<u8> {
    let (attr, records) = ([attr(), words(&[0, 0])].concat(), records());
    let attrs = (104, attr.len() as u64);
    let data = (attrs.0 + attrs.1, records.len() as u64);
    let mut header = b"PERFILE2".to_vec();
    header.extend(words(&[
        104,
        attr.len() as u64,
        attrs.0,
        attrs.1,
        data.0,
        data.1,
        0,
        0,
    ]));
    header.resize(104, 0);
    [header, attr, records].concat()
}

/// Makes a stream as `perf record -o -` writes it.
fn stream() -> Vec<u8> {
    let header = [b"PERFILE2".to_vec(), words(&[16])].concat();
    [header, record(64, 0, &attr()), records()].concat()
}

/// Returns depth, kind, name, begin and end of each span as text; `<` and `>` mark what was not
/// seen.
fn short(imported: &whylat_import::TraceImport) -> Vec<String> {
    check(imported);
    let mark = |seen: bool, mark: &'static str| if seen { "" } else { mark };
    let line = |row: &table::tables::Activity| {
        let (begin, end) = (mark(row.begin_seen, "<"), mark(row.end_seen, ">"));
        let name = row.name.as_deref().unwrap_or("-");
        format!(
            "{} {} {name} {begin}{}..{}{end}",
            row.depth, row.kind, row.begin_ns, row.end_ns
        )
    };
    rows(imported).iter().map(line).collect()
}

#[test]
fn file_and_stream_give_the_same_rows() {
    let expected = [
        "0 function [/bin/app] 1000..1064>",
        "1 irq - 1032..1064>",
        "2 function - 1032..1064>",
        "0 decode_error Failed to get instruction 1064..1128",
        "0 function [/bin/app] 1128..1128>",
        "0 decode_error Overflow packet 1128..1128>",
        "0 task app 900..1200",
        "0 idle - 1200..1200>",
    ];
    for bytes in [file(), stream()] {
        let imported = whylat_import::read_perf(&bytes).unwrap();
        assert_eq!(short(&imported), expected);
        for row in rows(&imported) {
            let idle = row.kind == ActivityKind::Idle;
            assert_eq!(row.tid, Some(if idle { 0 } else { 71 }));
            assert_eq!(row.cpu, Some(1));
        }
        assert_eq!(imported.notes.len(), 1, "{:?}", imported.notes);
    }
}

#[test]
fn truncated_file_is_read() {
    let whole = file();
    for len in 0..whole.len() {
        match whylat_import::read_perf(&whole[..len]) {
            Ok(imported) => check(&imported),
            Err(error) => assert!(error.to_string().contains("hint: ")),
        }
    }
    // A header that does not know yet how long the records are, and the last one cut off.
    let mut killed = whole;
    killed[48..56].fill(0);
    killed.truncate(killed.len() - 4);
    let imported = whylat_import::read_perf(&killed).unwrap();
    assert!(
        imported.notes.iter().any(|note| note.contains("cut off")),
        "{:?}",
        imported.notes
    );
    assert_eq!(rows(&imported).len(), 8);
}

#[test]
fn other_byte_order_and_nonsense_are_refused() {
    let mut other = file();
    other[..8].reverse();
    let error = whylat_import::read_perf(&other).unwrap_err().to_string();
    assert!(error.contains("big-endian"), "{error}");
    let error = whylat_import::read_perf(b"PERFILE2")
        .unwrap_err()
        .to_string();
    assert!(error.contains("cut off"), "{error}");
}

#[test]
fn every_stop_in_a_real_capture_is_a_row() {
    let Some(bytes) = data::sample("quipper/perf.data.intel_pt-4.14") else {
        return;
    };
    let imported = whylat_import::read_perf(&bytes).unwrap();
    check(&imported);
    let rows = rows(&imported);
    let of = |kind| rows.iter().filter(|row| row.kind == kind).count();
    assert_eq!(of(ActivityKind::DecodeError), 621);
    assert_eq!(of(ActivityKind::Irq), 4);
    assert!(of(ActivityKind::Task) > 0 && of(ActivityKind::Idle) > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn changed_perf_data_is_accounted_for(
        as_stream in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..10),
    ) {
        let mut bytes = if as_stream { stream() } else { file() };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(imported) = whylat_import::read_perf(&bytes) {
            prop_assert_eq!(imported.tally.residual(), 0);
        }
    }

    #[test]
    fn random_packets_are_accounted_for(packets in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = file();
        let at = bytes.windows(4).position(|at| at == [0x59, 0x20, 0xdd, 0]).expect("the packets");
        for (old, new) in bytes[at..].iter_mut().zip(packets).take(40) {
            *old = new;
        }
        let imported = whylat_import::read_perf(&bytes).unwrap();
        check(&imported);
    }
}
