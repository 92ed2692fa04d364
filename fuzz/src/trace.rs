//! Traces of other tools.

use import::TraceImport;

/// Every line or record is accounted for, and nothing ends before it begins.
fn check(imported: &TraceImport) {
    assert_eq!(imported.tally.residual(), 0);
    let rows = &imported.activities;
    for (begin_ns, end_ns) in rows.begin_ns.iter().zip(&rows.end_ns) {
        assert!(begin_ns <= end_ns);
    }
}

/// `perf.data`, or the text of `perf script`.
pub fn perf(bytes: &[u8]) {
    if let Ok(imported) = import::read_perf(bytes) {
        check(&imported);
    }
}

/// The text of ftrace, or of `trace-cmd report`.
pub fn ftrace(bytes: &[u8]) {
    if let Ok(imported) = import::read_ftrace(bytes) {
        check(&imported);
    }
}

/// Packets of Intel PT, in a `perf.data` that says that they are of one CPU.
pub fn intel_pt(bytes: &[u8]) {
    perf(&perf_data(bytes));
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend([0; 2]);
    bytes.extend((body.len() as u16 + 8).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// `PERF_RECORD_AUXTRACE_INFO` with clock ratios, `PERF_RECORD_AUXTRACE` with the packets, in a stream with one
/// event, as `perf record -o -` writes it.
fn perf_data(packets: &[u8]) -> Vec<u8> {
    // type and size, config, period, sample_type (TID, TIME, CPU), read_format, sample_id_all
    let attr = words(&[8 | 64 << 32, 0, 1, 0x86, 0, 1 << 18, 0, 0]);
    let info = words(&[1, 8, 0, 1, 0, 1, 0, 0, 3, 0, 1, 0, 0xf << 14, 2, 1, 0, 10]);
    let trace = words(&[packets.len() as u64, 0, 1000, 1 | 71 << 32, 1]);
    [
        b"PERFILE2".to_vec(),
        words(&[16]),
        record(64, &attr),
        record(70, &info),
        record(71, &trace),
        packets.to_vec(),
    ]
    .concat()
}
