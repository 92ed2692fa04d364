//! How a server sends its messages: one file for each family.

mod file;
mod plain;
mod uring;
mod zerocopy;

use std::io;
use std::net::TcpStream;

use super::matrix::Variant;
use super::message::Pool;
use super::protocol::{Hello, Tally};

/// Sends messages, each by a number that its receiver expects in it.
pub(super) trait Sender {
    /// Sends the next message, whole. Memory that the kernel may still read is not touched.
    ///
    /// # Errors
    /// When the peer is gone.
    fn send(&mut self, number: u64) -> io::Result<()>;

    /// Waits until the kernel needs no more of its memory.
    ///
    /// # Errors
    /// When the peer is gone.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// The sender of a variant; why there is none, where the kernel cannot.
pub(super) fn sender(
    stream: TcpStream,
    hello: &Hello,
) -> io::Result<Result<Box<dyn Sender>, String>> {
    let heap = || Pool::heap(hello.slots, hello.size);
    let lacks = |what: &str, why: &io::Error| Ok(Err(format!("{what}: {why}")));
    Ok(Ok(match hello.variant {
        Variant::Send | Variant::SendNodelay => Box::new(plain::Consolidated::new(stream, heap())),
        Variant::Sendmsg | Variant::SendmsgScatter => {
            Box::new(plain::Gathered::new(stream, heap()))
        }
        Variant::Zerocopy => match zerocopy::Zerocopy::new(stream, heap()) {
            Ok(sender) => Box::new(sender),
            Err(why) => return lacks("SO_ZEROCOPY", &why),
        },
        Variant::ZerocopyHuge => {
            let pool = match Pool::huge(hello.slots, hello.size) {
                Ok(pool) => pool,
                Err(why) => return lacks("huge pages", &why),
            };
            match zerocopy::Zerocopy::new(stream, pool) {
                Ok(sender) => Box::new(sender),
                Err(why) => return lacks("SO_ZEROCOPY", &why),
            }
        }
        Variant::Uring => match uring::Ring::new(stream, heap()) {
            Ok(sender) => Box::new(sender),
            Err(why) => return lacks("io_uring SENDMSG", &why),
        },
        Variant::UringZerocopy => match uring::ZerocopyRing::new(stream, heap()) {
            Ok(sender) => Box::new(sender),
            Err(why) => return lacks("io_uring SEND_ZC", &why),
        },
        Variant::Sendfile => Box::new(file::Sendfile::new(stream, &heap())?),
        Variant::Splice => Box::new(file::Splice::new(stream, &heap())?),
    }))
}

/// Slots in turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    sent: usize,
}

impl Turn {
    pub(super) fn next(&mut self, slots: usize) -> usize {
        let slot = self.sent % slots;
        self.sent += 1;
        slot
    }
}
