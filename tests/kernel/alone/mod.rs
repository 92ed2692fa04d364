//! Tests that look at the whole host: which BPF objects it holds, and who is in its namespaces. `make kernel` runs them one at
//! a time, after the others.

mod survive;
