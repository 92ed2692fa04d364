//! Kernel to records: the probes of whylat
