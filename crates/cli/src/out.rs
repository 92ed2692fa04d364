//! Data to stdout. A reader that has seen enough and left (`| head`) is no error.

use std::io::{self, BufWriter, ErrorKind, Write};

use anyhow::Context;
use serde::Serialize;

use crate::progress;

/// Writes `text` to stdout as it is.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write(|out| out.write_all(text.as_bytes()))
}

/// Writes `text` and a line end to stdout.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    print(&format!("{text}\n"))
}

/// Writes an answer as JSON and a line end to stdout, as it comes.
pub(crate) fn json(answer: &impl Serialize) -> anyhow::Result<()> {
    write(|out| {
        view::write_json(answer, &mut *out)?;
        out.write_all(b"\n")
    })
}

fn write(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    progress::clear();
    let mut stdout = BufWriter::new(io::stdout().lock());
    match print(&mut stdout).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to stdout"),
    }
}
