//! A recording session of whylat
