//! The interface of a digest.

use std::rc::Rc;

use table::TableConsumer;
use table::manifest::Header;

use crate::waits::NameTable;

/// Digest of rows. Its names are complete: of connections, sockets, processes and stacks.
pub trait RecordingDigest: TableConsumer {
    /// Makes an empty digest.
    fn new(header: &Header, names: &Rc<NameTable>) -> Self
    where
        Self: Sized;
}
