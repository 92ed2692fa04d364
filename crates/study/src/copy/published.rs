//! Results of the study that this one repeats ("PA02: Network I/O Performance Analysis", 2026: Intel i7-12700,
//! Linux 6.x, two namespaces joined by veth), to be put beside what is measured here.

/// Throughput at 8 threads by size, Gbit/s: A1, A2 and A3 (sections 10.4 and 10.5).
pub(super) const THROUGHPUT: [(usize, [f64; 3]); 4] = [
    (64, [0.0717, 0.0731, 0.0711]),
    (512, [0.5946, 0.5619, 0.5596]),
    (4096, [4.1737, 4.1277, 4.1465]),
    (65_536, [25.303, 25.247, 25.538]),
];

/// Mean latency of A1 at 64 bytes by threads, µs (section 8.3).
pub(super) const LATENCY_64: [(usize, f64); 4] = [
    (1, 6.736_870),
    (2, 6.666_992),
    (4, 6.817_650),
    (8, 7.114_873),
];

/// Throughput of the same rows, Gbit/s.
pub(super) const THROUGHPUT_64: [(usize, f64); 4] = [
    (1, 0.075_719),
    (2, 0.076_514),
    (4, 0.074_825),
    (8, 0.071_705),
];

/// Parallel efficiency at 8 threads (section 9.8).
pub(super) const EFFICIENCY_8: f64 = 0.12;

/// Its estimates, cycles: consolidation and the kernel's copy of 4 KB, pinning of a page (sections 4.2 and 6.2).
pub(super) const CYCLES: [(&str, usize, f64); 3] = [
    ("consolidation", 4096, 150.0),
    ("kernel_copy", 4096, 250.0),
    ("pinning", 4096, 800.0),
];

/// Its processor's largest frequency, GHz: what its cycles are in time at least (Intel's data sheet: 4.9).
pub(super) const GHZ: f64 = 4.9;
