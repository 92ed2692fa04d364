//! `whylat lab`: faults, the wire emulator and the workloads, as they are in the lab crate, and its studies.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use diagnose::report::RuleId;

/// The lab.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat lab list
  sudo whylat lab fault write_write_read")]
pub(crate) struct Lab {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Plant a fault and print the ground truth.
    #[command(disable_help_flag = true)]
    Fault(Rest),
    /// List the faults.
    #[command(disable_help_flag = true)]
    List(Rest),
    /// Compare a report with the ground truth of a fault.
    #[command(disable_help_flag = true)]
    Score(Rest),
    /// Emulate a path with delay, loss and a rate between two new network namespaces.
    #[command(disable_help_flag = true)]
    Wire(Rest),
    /// Measure, record, fix and measure again the slowest replies of a server.
    #[command(disable_help_flag = true)]
    Tail(Rest),
    /// Measure the cost of copies in send, sendmsg, MSG_ZEROCOPY, io_uring and others.
    #[command(disable_help_flag = true)]
    Copy(Rest),
    /// Run a small program with known TCP behaviour.
    #[command(disable_help_flag = true)]
    Workload(Rest),
}

#[derive(Debug, Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Adds the lab's own options to the command `whylat lab`, for help, shells and manual pages.
pub(crate) fn with_options(lab: clap::Command) -> clap::Command {
    let declared = [
        ("fault", lab::fault::command::declaration()),
        ("list", lab::fault::command::list_declaration()),
        ("score", lab::fault::command::score_declaration()),
        ("wire", lab::wire::command::declaration()),
        ("tail", study::tail::declaration()),
        ("copy", study::copy::declaration()),
        ("workload", lab::workload::declaration()),
    ];
    declared.into_iter().fold(lab, |lab, (name, options)| {
        lab.mut_subcommand(name, |_| options.name(name).no_binary_name(false))
    })
}

impl Lab {
    pub(crate) fn execute(self) -> ExitCode {
        use lab::{fault::command as fault, wire::command as wire, workload};
        use study::{copy, tail};
        match self.command {
            LabCommand::Fault(rest) => rest.hand_on(fault::declaration(), fault::main),
            LabCommand::List(rest) => rest.hand_on(fault::list_declaration(), fault::run_list),
            LabCommand::Score(rest) => rest.hand_on(fault::score_declaration(), |arguments| {
                let answers: Vec<_> = diagnose::rules::answer_rules().map(RuleId::name).collect();
                fault::run_score(arguments, &answers)
            }),
            LabCommand::Wire(rest) => rest.hand_on(wire::declaration(), wire::main),
            LabCommand::Tail(rest) => rest.hand_on(tail::declaration(), tail::main),
            LabCommand::Copy(rest) => rest.hand_on(copy::declaration(), copy::main),
            LabCommand::Workload(rest) => rest.hand_on(workload::declaration(), workload::main),
        }
    }
}

impl Rest {
    /// Passes the arguments on to the lab; prints its help and errors as wide as those of other
    /// commands.
    fn hand_on(
        self,
        declared: clap::Command,
        execute: impl FnOnce(Vec<OsString>) -> ExitCode,
    ) -> ExitCode {
        let declared = declared.max_term_width(view::MOST_COLUMNS);
        match declared.try_get_matches_from(&self.arguments) {
            Ok(_) => execute(self.arguments),
            Err(usage) => {
                // A closed stdout or stderr takes no message.
                let _ = usage.print();
                ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
            }
        }
    }
}
