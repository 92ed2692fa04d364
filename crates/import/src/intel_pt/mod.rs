//! Intel PT: bytes of a trace buffer → branches and errors with their times.

mod clock;
mod decode;
mod packet;

pub(crate) use clock::{Ratios, TimeConv};
pub(crate) use decode::{Decoder, PtEvent, Stop, Told};
