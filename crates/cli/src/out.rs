//! Data to stdout, talk to stderr. A reader that has seen enough and left (`| head`) is no error.
//!
//! Messages name files, tables and keys that anybody may have made up: what a terminal would act on is taken out here,
//! so that no command can forget it.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufWriter, ErrorKind, Write};

use anyhow::Context;
use serde::Serialize;

use crate::progress;

/// Writes `text` to stdout, cleaned.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    exact(&clean(text))
}

/// Writes `text` and a line end to stdout, cleaned.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    print(&format!("{text}\n"))
}

/// Writes `text` to stdout as it is: what `view` has drawn, which cleans every string and then colours it, or what is
/// for programs.
pub(crate) fn exact(text: &str) -> anyhow::Result<()> {
    write(|out| out.write_all(text.as_bytes()))
}

/// Writes an answer as JSON and a line end to stdout, as it comes.
pub(crate) fn json(answer: &impl Serialize) -> anyhow::Result<()> {
    write(|out| {
        view::write_json(answer, &mut *out)?;
        out.write_all(b"\n")
    })
}

/// Writes a line to stderr, cleaned: what `eprintln!` does. That nobody can hear it (a full disk, a reader that left)
/// is no reason to panic: the recording goes on.
pub(crate) fn say(said: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", clean(&said.to_string()));
}

/// A name as it stands within a message, on one line: a line end in it would begin a line that nobody wrote.
pub(crate) fn name(name: &(impl AsRef<OsStr> + ?Sized)) -> String {
    view::clean(&name.as_ref().to_string_lossy())
}

/// Text without what a terminal would act on. Its line ends stay: messages have several lines.
fn clean(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(view::clean).collect();
    lines.join("\n")
}

fn write(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    progress::clear();
    let mut stdout = BufWriter::new(io::stdout().lock());
    match print(&mut stdout).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to stdout"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{clean, name};

    #[test]
    fn no_message_steers_the_terminal() {
        let said = "error: cannot read a\u{1b}]0;title\u{7}b\u{9b}2J\nhint: ls\r\u{1b}[1A\n";
        assert_eq!(clean(said), "error: cannot read ab\nhint: ls\n");
        assert_eq!(clean("two\n\nparts\n"), "two\n\nparts\n");
    }

    #[test]
    fn a_name_is_on_one_line() {
        let hostile = Path::new("r\nhint: rm -r\u{1b}[8m.whylat");
        assert_eq!(name(hostile), "r hint: rm -r.whylat");
        assert_eq!(name("r.whylat"), "r.whylat");
    }
}
