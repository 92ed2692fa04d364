//! The `whylat` command: one file a subcommand. Data goes to stdout, talk to stderr.
//!
//! Exit codes: `run` gives the command's own status (126 or 127 when it cannot be started, 128 +
//! signal); every other command gives 0 done, 1 failed, 2 usage, 3 done but the data is partial:
//! events were lost, or the recording is damaged or was not closed in order. The help says so at its
//! end, and every manual page.

/// Talk to stderr: without what a terminal would act on, and without a panic, unlike std's macro of this name.
macro_rules! eprintln {
    ($($message:tt)*) => {
        $crate::out::print_message(format_args!($($message)*))
    };
}

mod agent;
mod args;
mod bugreport;
mod config;
mod confine;
mod container;
mod demo;
mod diff;
mod doctor;
mod export;
mod format;
mod import;
mod lab;
mod load;
mod maintain;
mod messages;
mod out;
mod page;
mod profile;
mod progress;
mod record;
mod report;
mod shell;
mod tail;
mod top;
mod values;
mod waits;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Tells why networked programs are slow.
#[derive(Debug, Parser)]
#[command(
    name = "whylat",
    version,
    max_term_width = view::MOST_COLUMNS,
    arg_required_else_help = true,
    after_help = "\
Examples:
  sudo whylat run -- ./client          # record a command, print the diagnosis
  sudo whylat record -p 4321 -d 10     # ten seconds of what runs already
  whylat report                        # the newest diagnosis again
  whylat view                          # the same in a browser
  sudo whylat doctor                   # what works on this host

Exit codes:
  0  done
  1  failed, or `validate` found damage, or `doctor` what can be mended
  2  wrong usage
  3  done, but the data is partial: events were lost, or the recording is
     damaged or was not closed in order
  `run` ends as its command does: 128 + signal; 126 or 127: it did not start"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record a command and its children until it exits, and print the diagnosis.
    Run(record::Run),
    /// Record processes that are running, until interrupted or for a time.
    Record(record::Record),
    /// Keep what the flight recorder of a running recording holds now.
    Snapshot(record::Snapshot),
    /// Print the diagnosis of a recording again.
    Report(report::ReportArgs),
    /// Look at a recording in a browser: one file, without a network.
    View(page::View),
    /// Watch connections live: what holds each of them up.
    Top(top::TopArgs),
    /// Say why messages of one recording take longer than those of another.
    Diff(diff::Diff),
    /// Say what works on this host, what does not, and the command that mends it.
    Doctor(doctor::Doctor),
    /// Record a real stall on this machine, explain it, and show it mended.
    Demo(demo::Demo),
    /// Watch every connection of this host all the time, for a fleet.
    Agent(agent::Agent),
    /// Check a recording's digests, row counts and accounts.
    Validate(maintain::Validate),
    /// Close what a crash left open.
    Recover(maintain::Recover),
    /// Make a recording of a trace that perf or ftrace made.
    Import(import::Import),
    /// Show the configuration file's profiles, and whether they are right.
    Config(config::ConfigArgs),
    /// Collect what a report of a fault in whylat needs, in one file.
    Bugreport(bugreport::Bugreport),
    /// Print what completes commands and options in a shell.
    Completions(shell::Completions),
    /// Write the manual pages.
    Manual(shell::Manual),
    /// Workloads that cause known problems, and a wire emulator.
    Lab(lab::Lab),
}

/// Exit codes of every command but `run`.
mod exit {
    /// Failed.
    pub(crate) const FAILED: u8 = 1;
    /// Done, but the data is partial: events were lost, or the recording is damaged or was not closed in order.
    pub(crate) const INCOMPLETE: u8 = 3;

    /// Of what was done.
    pub(crate) fn of(is_complete: bool) -> std::process::ExitCode {
        if is_complete { 0 } else { INCOMPLETE }.into()
    }
}

/// All that the command line knows, the lab's own options included.
fn program() -> clap::Command {
    Cli::command().mut_subcommand("lab", lab::with_options)
}

fn main() -> ExitCode {
    progress::watch();
    let result = match Cli::parse().command {
        Command::Run(run) => run.execute(),
        Command::Record(record) => record.execute(),
        Command::Snapshot(snapshot) => snapshot.execute(),
        Command::Report(report) => confined(|| report.execute()),
        Command::View(view) => view.execute(),
        Command::Top(top) => top.execute(),
        Command::Diff(diff) => confined(|| diff.execute()),
        Command::Doctor(doctor) => doctor.execute(),
        Command::Demo(demo) => demo.execute(),
        Command::Agent(agent) => agent.execute(),
        Command::Validate(validate) => confined(|| validate.execute()),
        Command::Recover(recover) => confined(|| recover.execute()),
        Command::Import(import) => confined(|| import.execute()),
        Command::Config(config) => config.execute(),
        Command::Bugreport(bugreport) => bugreport.execute(&program()),
        Command::Completions(completions) => completions.execute(program()),
        Command::Manual(manual) => manual.execute(program()),
        Command::Lab(lab) => return lab.execute(),
    };
    progress::clear();
    result.unwrap_or_else(|error| {
        eprintln!("error: {}", describe(&error));
        ExitCode::from(exit::FAILED)
    })
}

/// Does what reads files that may come from anybody.
fn confined(execute: impl FnOnce() -> anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    confine::confine();
    execute()
}

/// An error with its causes, each said once: typed errors name theirs in their own words.
fn describe(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    /// What help says of options that a command does not have.
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

    /// Commands that write nothing that a user could want elsewhere, and why.
    const WITHOUT_OUTPUT: &[(&str, &str)] = &[
        (
            "snapshot",
            "the recorder that is asked writes into its recording",
        ),
        ("recover", "mends a recording where it is"),
        ("agent", "its configuration names a target"),
        ("list", "lab: a list for people, one line a fault"),
        (
            "wire",
            "lab: runs until it is ended, and tells its tests when it is ready",
        ),
        ("serve", "lab: serves until it is ended"),
        ("ask", "lab: one part of a study, for another machine"),
        ("workload", "lab: talks with whoever started it"),
    ];

    /// Every command that does something, with the words that lead to it.
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
