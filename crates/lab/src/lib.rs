//! Workloads and a wire emulator that cause known TCP problems
