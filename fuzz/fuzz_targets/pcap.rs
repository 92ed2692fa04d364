#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| whylat_fuzz::pcap(bytes));
