//! Data to stdout. A reader that has seen enough and left (`| head`) is no error.

use std::io::{ErrorKind, Write};

use anyhow::Context;

use crate::progress;

/// Writes `text` to stdout as it is.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    progress::clear();
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to stdout"),
    }
}

/// Writes `text` and a line end to stdout.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    print(&format!("{text}\n"))
}
