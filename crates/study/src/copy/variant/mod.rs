//! Variants of sending: one file for each family.

mod file;
mod plain;
mod sender;
mod uring;
mod zerocopy;

use std::io;
use std::net::TcpStream;

use super::matrix::SendVariant;
use super::message::MessagePool;
use super::protocol::StreamRequest;
pub(super) use sender::Sender;

/// Returns the sender of a variant; the inner error says why the kernel cannot do it.
pub(super) fn sender(
    stream: TcpStream,
    hello: &StreamRequest,
) -> io::Result<Result<Box<dyn Sender>, String>> {
    let heap = || MessagePool::heap(hello.slots, hello.size);
    let lacks = |what: &str, why: &io::Error| Ok(Err(format!("{what}: {why}")));
    Ok(Ok(match hello.variant {
        SendVariant::Send | SendVariant::SendNodelay => {
            Box::new(plain::ConsolidatedSender::new(stream, heap()))
        }
        SendVariant::Sendmsg | SendVariant::SendmsgScatter => {
            Box::new(plain::GatheredSender::new(stream, heap()))
        }
        SendVariant::Zerocopy => match zerocopy::ZerocopySender::new(stream, heap()) {
            Ok(sender) => Box::new(sender),
            Err(why) => return lacks("SO_ZEROCOPY", &why),
        },
        SendVariant::ZerocopyHuge => {
            let pool = match MessagePool::huge(hello.slots, hello.size) {
                Ok(pool) => pool,
                Err(why) => return lacks("huge pages", &why),
            };
            match zerocopy::ZerocopySender::new(stream, pool) {
                Ok(sender) => Box::new(sender),
                Err(why) => return lacks("SO_ZEROCOPY", &why),
            }
        }
        SendVariant::Uring => match uring::UringSender::new(stream, heap()) {
            Ok(sender) => Box::new(sender),
            Err(why) => return lacks("io_uring SENDMSG", &why),
        },
        SendVariant::UringZerocopy => match uring::UringZerocopySender::new(stream, heap()) {
            Ok(sender) => Box::new(sender),
            Err(why) => return lacks("io_uring SEND_ZC", &why),
        },
        SendVariant::Sendfile => Box::new(file::SendfileSender::new(stream, &heap())?),
        SendVariant::Splice => Box::new(file::SpliceSender::new(stream, &heap())?),
    }))
}
