//! Tables of a whylat recording: each declared once ([`tables`]), kept in typed columns while
//! they are filled ([`declare`]), and stored as sealed Parquet segments in a directory that
//! survives a kill ([`write`], [`read`]).

pub mod declare;
pub mod manifest;
pub mod names;
pub mod tables;

pub use declare::{Columns, Field, ShapeError, Table};
pub use names::{Chosen, Method, Role, SampleKind, Stage, TcpEventKind};
