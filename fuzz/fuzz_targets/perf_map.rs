#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| whylat_fuzz::perf_map(bytes));
