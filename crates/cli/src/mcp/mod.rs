//! `whylat mcp`: recordings for assistants, by the Model Context Protocol on stdin and stdout.
//!
//! `server` speaks the protocol, `tools` has the list of tools, `tool` says what one is. Each of `recordings`, `answers`,
//! `pages` and `rows` has some of them: the answers are those of `whylat report`. `root` says which paths may be read,
//! `pieces` how long an answer is.

mod answers;
mod pages;
mod pieces;
mod recordings;
mod root;
mod rows;
mod server;
mod tool;
mod tools;

use std::io::{IsTerminal, stdin};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use crate::confine::confine_process;
use root::RootFolder;

/// Answers an assistant about recordings.
///
/// Speaks the Model Context Protocol on stdin and stdout, until the assistant closes stdin. Only reads, and only below the
/// root folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat mcp                              # recordings below the current folder
  whylat mcp --root /var/lib/recordings")]
pub(crate) struct Mcp {
    /// Folder with the recordings; nothing outside of it is read
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
}

impl Mcp {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let root = RootFolder::enter(&self.root)?;
        if stdin().is_terminal() {
            eprintln!(
                "note: an assistant starts this command and speaks JSON with it; Ctrl-D ends it\n\
                 hint: docs/mcp.md says how to configure an assistant"
            );
        }
        confine_process();
        // Without its own poller of file descriptors: stdin and stdout have threads, which the filter of system calls lets pass.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build();
        let runtime = runtime.context("cannot start the server")?;
        let served = runtime.block_on(server::serve(root));
        // A thread may still wait for stdin.
        runtime.shutdown_background();
        served?;
        Ok(ExitCode::SUCCESS)
    }
}
