//! Intel PT: bytes of a trace buffer → branches and errors with their times.

mod clock;
mod decode;
mod packet;
mod psb;

pub(crate) use clock::{ClockRatios, TimeConversion};
pub(crate) use decode::{Decoder, FlowEvent, PtEvent, StopReason};
