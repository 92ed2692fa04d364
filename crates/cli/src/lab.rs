//! `whylat lab`: faults, the wire emulator and the workloads, as they are in the lab crate.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Subcommand};

/// The lab.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat lab list
  sudo whylat lab fault nagle_delayed_ack")]
pub(crate) struct Lab {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Plants a fault and prints the ground truth.
    #[command(disable_help_flag = true)]
    Fault(Rest),
    /// The faults that there are.
    #[command(disable_help_flag = true)]
    List(Rest),
    /// A path between two new network namespaces, with delay, loss and a rate.
    #[command(disable_help_flag = true)]
    Wire(Rest),
    /// A server's slowest answers: measured, recorded, mended as the diagnosis says, measured again.
    #[command(disable_help_flag = true)]
    Tail(Rest),
    /// What copies cost when a server sends: send, sendmsg, MSG_ZEROCOPY, io_uring and others, with figures.
    #[command(disable_help_flag = true)]
    Copy(Rest),
    /// A small program with a known TCP behaviour.
    #[command(disable_help_flag = true)]
    Workload(Rest),
}

#[derive(Debug, Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// `whylat lab` with the options of its commands, which the lab declares: for help, shells and manual pages.
pub(crate) fn with_options(lab: clap::Command) -> clap::Command {
    let declared = [
        ("fault", lab::fault::command::declaration()),
        ("list", lab::fault::command::list_declaration()),
        ("wire", lab::wire::command::declaration()),
        ("tail", lab::study::declaration()),
        ("copy", lab::copy::declaration()),
        ("workload", lab::workload::declaration()),
    ];
    declared.into_iter().fold(lab, |lab, (name, options)| {
        lab.mut_subcommand(name, |_| options.name(name).no_binary_name(false))
    })
}

impl Lab {
    pub(crate) fn execute(self) -> ExitCode {
        match self.command {
            LabCommand::Fault(rest) => lab::fault::command::main(rest.arguments),
            LabCommand::List(rest) => lab::fault::command::list(rest.arguments),
            LabCommand::Wire(rest) => lab::wire::command::main(rest.arguments),
            LabCommand::Tail(rest) => lab::study::main(rest.arguments),
            LabCommand::Copy(rest) => lab::copy::main(rest.arguments),
            LabCommand::Workload(rest) => lab::workload::main(rest.arguments),
        }
    }
}
