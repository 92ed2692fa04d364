//! Collector of the Intel ITT API: what an instrumented program says about itself, recorded.
//!
//! In: the program's calls. `INTEL_LIBITTNOTIFY64=/path/libwhylat_itt.so` makes the ittnotify
//! part that is linked into the program load this library and call `__itt_api_init`
//! ([`collector`]). Out: [`Record`]s, which the recorder (`crates/probe/src/itt`) reads from a file
//! that both map, the [`Ring`]. What was written is there after a crash of the program.
//!
//! The recorder creates the ring, checks the library with [`check_loadable`], and starts the program
//! with [`COLLECTOR_VARIABLE`] and [`RING_VARIABLE`] set. See `README.md` beside this crate.

mod collector;
mod decode;
mod error;
mod layout;
mod loadable;
mod losses;
mod record;
mod region;
mod ring;
mod value;
mod wire;

pub use error::Error;
pub use layout::RingShape;
pub use loadable::check_loadable;
pub use losses::Losses;
pub use record::{Body, Context, Identifier, Record, Scope, SyncAction};
pub use ring::Ring;
pub use value::{Value, ValueType};

/// Environment variable in which the program's ittnotify part looks for a collector. Its value
/// is the absolute path of `libwhylat_itt.so`.
pub const COLLECTOR_VARIABLE: &str = "INTEL_LIBITTNOTIFY64";
/// Environment variable in which the collector looks for the path of the ring.
pub const RING_VARIABLE: &str = "WHYLAT_ITT_RING";
