//! The `whylat` command: one file a subcommand. Data goes to stdout, messages to stderr.
//!
//! Exit codes: `run` returns the command's own status (126 or 127 when it cannot be started, 128 +
//! signal); every other command returns 0 done, 1 failed, 2 usage, 3 done but the data is partial:
//! events were lost, or the recording is damaged or was not closed in order, 4 `check` found what it
//! must not. The help and every manual page list them.

/// Writes a message to stderr, cleaned; unlike std's macro of this name it never panics.
macro_rules! eprintln {
    ($($message:tt)*) => {
        $crate::out::print_message(format_args!($($message)*))
    };
}

mod agent;
mod args;
mod bugreport;
mod check;
mod config;
mod confine;
mod container;
mod demo;
mod diff;
mod doctor;
mod drops;
mod exit;
mod export;
mod format;
mod import;
mod lab;
mod load;
mod maintain;
mod mcp;
mod messages;
mod otlp;
mod out;
mod page;
mod profile;
mod progress;
mod record;
mod report;
mod requests;
mod scratch;
mod shell;
mod tail;
mod top;
mod values;
mod waits;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Finds out why networked programs are slow.
#[derive(Debug, Parser)]
#[command(
    name = "whylat",
    version,
    max_term_width = view::MOST_COLUMNS,
    arg_required_else_help = true,
    after_help = "\
Examples:
  sudo whylat run -- ./client          # record a command and diagnose it
  sudo whylat record -p 4321 -d 10     # record a running process for 10 s
  whylat report                        # diagnose the newest recording
  whylat view                          # show it in a browser
  sudo whylat doctor                   # check what works on this host

Exit codes:
  0  done
  1  failed, or `validate` found damage, or `doctor` a problem with a remedy
  2  wrong usage
  3  done, but the data is partial: events were lost, or the recording is
     damaged or was not closed in order
  4  `check` failed: the command got worse
  `run` returns the status of its command; 128 + signal; 126 or 127: the
  command did not start"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record a command until it exits, then diagnose it.
    Run(record::Run),
    /// Record running processes.
    Record(record::Record),
    /// Save the flight recorder of a running recording now.
    Snapshot(record::Snapshot),
    /// Diagnose a recording.
    Report(report::ReportArgs),
    /// Show a recording in a browser, as one file.
    View(page::View),
    /// Watch connections live, with what delays each.
    Top(top::TopArgs),
    /// Explain why messages take longer than in another recording.
    Diff(diff::Diff),
    /// Fail when a command got worse: for continuous integration.
    Check(check::CheckArgs),
    /// Check what works on this host, with the fix for the rest.
    Doctor(doctor::Doctor),
    /// Record a real stall on this host, explain it, and fix it.
    Demo(demo::Demo),
    /// Watch every connection of this host continuously, for a fleet.
    Agent(agent::Agent),
    /// Answer an assistant about recordings (Model Context Protocol).
    Mcp(mcp::Mcp),
    /// Send a recording to other systems.
    Export(otlp::Export),
    /// Check the integrity of a recording.
    Validate(maintain::Validate),
    /// Close a recording that a crash left open.
    Recover(maintain::Recover),
    /// Convert a packet capture, or a trace of perf or ftrace, to a recording.
    Import(import::Import),
    /// Show and check the profiles of the configuration file.
    Config(config::ConfigArgs),
    /// Collect the data for a bug report in one file.
    Bugreport(bugreport::Bugreport),
    /// Print a completion script for a shell.
    Completions(shell::Completions),
    /// Write the manual pages.
    Manual(shell::Manual),
    /// Plant known faults, and emulate networks.
    Lab(lab::Lab),
}

/// Returns the whole command line, with the options of the lab.
fn program() -> clap::Command {
    Cli::command().mut_subcommand("lab", lab::with_options)
}

fn main() -> ExitCode {
    progress::watch();
    let result = match parse().command {
        Command::Run(run) => run.execute(),
        Command::Record(record) => record.execute(),
        Command::Snapshot(snapshot) => snapshot.execute(),
        Command::Report(report) => run_confined(|| report.execute()),
        Command::View(view) => view.execute(),
        Command::Top(top) => top.execute(),
        Command::Diff(diff) => run_confined(|| diff.execute()),
        Command::Check(check) => check.execute(),
        Command::Doctor(doctor) => doctor.execute(),
        Command::Demo(demo) => demo.execute(),
        Command::Agent(agent) => agent.execute(),
        Command::Mcp(mcp) => mcp.execute(),
        Command::Export(export) => export.execute(),
        Command::Validate(validate) => run_confined(|| validate.execute()),
        Command::Recover(recover) => run_confined(|| recover.execute()),
        Command::Import(import) => run_confined(|| import.execute()),
        Command::Config(config) => config.execute(),
        Command::Bugreport(bugreport) => bugreport.execute(&program()),
        Command::Completions(completions) => completions.execute(program()),
        Command::Manual(manual) => manual.execute(program()),
        Command::Lab(lab) => return lab.execute(),
    };
    progress::clear();
    result.unwrap_or_else(|error| {
        eprintln!("error: {}", out::describe(&error));
        exit::from_error(&error)
    })
}

/// Reads the command line; ends with help, or with an error, if that is what it asks for. The lab prints its own help:
/// `whylat help lab fault` is `whylat lab fault --help`.
fn parse() -> Cli {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.iter().skip(1).take(2).eq(["help", "lab"]) {
        words.remove(1);
        words.push("--help".into());
    }
    Cli::parse_from(words)
}

/// Runs a command that reads untrusted files.
fn run_confined(execute: impl FnOnce() -> anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    confine::confine_process();
    execute()
}

#[cfg(test)]
mod tests {
    /// Collects help texts that name an option which the command does not have.
    fn strangers(command: &clap::Command, found: &mut Vec<String>) {
        let has = |option: &str| {
            command
                .get_arguments()
                .any(|it| it.get_long() == Some(option))
        };
        for argument in command.get_arguments() {
            let help = argument
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let named = help
                .strip_prefix("With --")
                .and_then(|rest| rest.split([' ', ':']).next());
            if named.is_some_and(|named| !has(named)) || help.contains("formats") && !has("format")
            {
                found.push(format!("{}: {help}", command.get_name()));
            }
        }
        for command in command.get_subcommands() {
            strangers(command, found);
        }
    }

    /// Commands without `-o`, and why.
    const WITHOUT_OUTPUT: &[(&str, &str)] = &[
        ("snapshot", "the running recorder writes into its recording"),
        ("recover", "repairs a recording in place"),
        ("mcp", "answers an assistant on standard output"),
        ("agent", "its configuration names a target"),
        ("otlp", "sends to a collector"),
        ("list", "lab: a list for people, one line a fault"),
        ("wire", "lab: runs until it is stopped"),
        ("serve", "lab: serves until it is stopped"),
        ("ask", "lab: one part of a study, for another machine"),
        ("workload", "lab: reports to the program that started it"),
    ];

    /// Collects every command without subcommands, with its full name.
    fn leaves(command: &clap::Command, words: &[&str], found: &mut Vec<(String, bool)>) {
        let words = [words, &[command.get_name()]].concat();
        let is_named = |name: &str| words.contains(&name);
        let has_output = command
            .get_arguments()
            .any(|it| it.get_long() == Some("output") && it.get_short() == Some('o'));
        let is_free = WITHOUT_OUTPUT.iter().any(|(name, _)| is_named(name));
        if !is_named("help") && !command.is_subcommand_required_set() {
            assert!(
                !(is_free && has_output),
                "{words:?} is in the list of those without -o"
            );
            found.push((words.join(" "), has_output || is_free));
        }
        for below in command.get_subcommands() {
            leaves(below, &words, found);
        }
    }

    #[test]
    fn writing_commands_have_output_option() {
        let mut program = super::program();
        program.build();
        let mut found = Vec::new();
        leaves(&program, &[], &mut found);
        let lacking: Vec<_> = found.iter().filter(|(_, has)| !has).collect();
        assert_eq!(lacking, Vec::<&(String, bool)>::new());
        assert!(found.len() > 20, "{found:?}");
    }

    #[test]
    fn help_names_existing_options() {
        let mut found = Vec::new();
        strangers(&super::program(), &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}
