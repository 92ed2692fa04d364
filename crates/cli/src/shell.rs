//! `whylat completions` and `whylat manual`: scripts for shells and pages for `man`, generated from the declarations
//! that parse the command line.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::out::{self, DirectoryArgs, OutputArgs};

/// Begins the examples at the end of every command's help.
const EXAMPLES: &str = "Examples:";

/// Begins what exit codes mean, at the end of the program's own help.
const CODES: &str = "Exit codes:";

/// Prints a script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat completions bash > ~/.local/share/bash-completion/completions/whylat
  whylat completions zsh -o ~/.zfunc/_whylat --force
  whylat completions fish -o ~/.config/fish/completions/whylat.fish")]
pub(crate) struct Completions {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
    #[command(flatten)]
    to: OutputArgs,
}

impl Completions {
    pub(crate) fn execute(self, mut program: Command) -> anyhow::Result<ExitCode> {
        let to = self.to.check()?;
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "whylat", &mut script);
        to.write_exact(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes manual pages.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat manual -o man1
  whylat manual --force -o /usr/local/share/man/man1")]
#[command(mut_arg("output", |it| it.required(true).help("Directory to create for the pages")))]
#[command(mut_arg("force", |it| it.help("Write into PATH if it exists, and replace its pages")))]
pub(crate) struct Manual {
    #[command(flatten)]
    to: DirectoryArgs,
}

impl Manual {
    pub(crate) fn execute(self, program: Command) -> anyhow::Result<ExitCode> {
        let dir = self
            .to
            .make_directory()?
            .context("no directory for the pages")?;
        let mut program = program.disable_help_subcommand(true);
        program.build();
        let codes = help_section(&program, CODES).unwrap_or_default();
        write_pages(dir, &program, &codes)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the manual pages of a command and of those below it. `codes`: what exit codes mean.
fn write_pages(dir: &Path, command: &Command, codes: &str) -> anyhow::Result<()> {
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_pages(dir, below, codes)?;
    }
    let man = Man::new(command.clone()).source(concat!("whylat ", env!("CARGO_PKG_VERSION")));
    let path = dir.join(man.get_filename());
    let mut page = Vec::new();
    render(&man, command, codes, &mut page)
        .and_then(|()| std::fs::write(&path, page))
        .with_context(|| format!("cannot write {}", out::name(&path)))
}

/// Writes a manual page, with exit codes and the examples line by line.
fn render(man: &Man, command: &Command, codes: &str, page: &mut Vec<u8>) -> io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    if command.get_arguments().any(|it| !it.is_hide_set()) {
        man.render_options_section(page)?;
    }
    if command.get_subcommands().any(|it| !it.is_hide_set()) {
        man.render_subcommands_section(page)?;
    }
    add_section("EXIT STATUS", codes, page)?;
    if let Some(examples) = help_examples(command) {
        add_section("EXAMPLES", &examples, page)?;
    }
    page.flush()
}

/// Adds a section with the lines of the help, without its indentation.
fn add_section(title: &str, lines: &str, page: &mut Vec<u8>) -> io::Result<()> {
    const INDENTATION: &str = "  ";
    let mut roff = Roff::new();
    roff.control("SH", [title]).control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line.strip_prefix(INDENTATION).unwrap_or(line))]);
    }
    roff.control("fi", []).to_writer(page)
}

/// Returns the examples at the end of a command's help, one a line.
fn help_examples(command: &Command) -> Option<String> {
    help_section(command, EXAMPLES)
}

/// Returns the lines under a title at the end of a command's help.
fn help_section(command: &Command, title: &str) -> Option<String> {
    let help = command.get_after_help()?.to_string();
    let mut parts = help.split("\n\n");
    let lines = parts.find_map(|part| part.strip_prefix(title))?;
    Some(lines.trim_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `see` for every command, with its full name.
    fn visit(command: &Command, path: &str, see: &mut impl FnMut(&str, &Command)) {
        see(path, command);
        for below in command.get_subcommands() {
            let path = format!("{path} {}", below.get_name());
            visit(below, &path, see);
        }
    }

    /// Returns the words of an example, as a shell splits it.
    fn words(example: &str) -> Vec<String> {
        let end = [" # ", " > ", " < "]
            .iter()
            .filter_map(|it| example.find(it));
        let line = &example[..end.min().unwrap_or(example.len())];
        let line = line.trim().trim_start_matches("sudo ");
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for letter in line.trim().chars() {
            match letter {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                _ => words.last_mut().expect("one").push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        let program = crate::program();
        let mut seen = 0;
        visit(&program, "whylat", &mut |path, command| {
            let Some(examples) = help_examples(command) else {
                let is_role = path.starts_with("whylat lab workload ")
                    || path.starts_with("whylat lab copy ");
                assert!(is_role, "{path} has no examples at the end of its help");
                return;
            };
            let is_own = |line: &str| line.contains(path) || path == "whylat";
            assert!(examples.lines().any(is_own), "{path}: {examples}");
            for line in examples.lines() {
                assert!(line.len() < 80, "{line}");
                let parsed = crate::program().try_get_matches_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("failed"));
                seen += 1;
            }
        });
        assert!(seen > 30, "{seen}");
    }

    #[test]
    fn every_manual_page_lists_exit_codes() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = scratch.path().join("man1");
        let manual = Manual {
            to: DirectoryArgs::from_path(&dir),
        };
        manual.execute(crate::program()).expect("written");
        let pages = std::fs::read_dir(dir).expect("pages");
        for page in pages.flatten() {
            let text = std::fs::read_to_string(page.path()).expect("a page");
            let codes = text.split(".SH \"EXIT STATUS\"\n").nth(1);
            let codes = codes.unwrap_or_else(|| panic!("{text}"));
            for code in ["0  done", "1  failed", "2  wrong usage", "3  done, but"] {
                assert!(codes.contains(&format!("\n{code}")), "{code}: {text}");
            }
        }
    }

    #[test]
    fn help_fits_report_width() {
        let mut program = crate::program();
        program.build();
        visit(&program, "whylat", &mut |path, command| {
            let help = command.clone().render_long_help().to_string();
            for line in help.lines().filter(|line| !line.starts_with("Usage: ")) {
                let columns = line.chars().count();
                assert!(columns <= view::MOST_COLUMNS, "{path}: {line}");
            }
        });
    }

    #[test]
    fn clap_declarations_are_valid() {
        crate::program().debug_assert();
    }
}
