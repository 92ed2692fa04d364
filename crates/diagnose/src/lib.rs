//! Tables to findings: stages and rules of whylat
