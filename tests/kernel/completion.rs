//! Completion of command lines by the shells themselves, with the scripts that whylat prints. No privileges needed.

use std::fs;
use std::path::Path;
use std::process::Command;

use testbed::{finish, program, whylat};

/// Lines with an unfinished last word, and what must be offered for it.
const KNOWN: [(&str, &str); 7] = [
    ("whylat rep", "report"),
    ("whylat run --det", "--detail"),
    ("whylat run --detail m", "messages"),
    ("whylat lab ", "fault"),
    ("whylat lab fault --var", "--variant"),
    ("whylat lab fault --variant h", "healthy"),
    ("whylat import ", "ftrace"),
];

/// Whether `shell` offers what it must; `offers` says how it is asked, with the script at hand.
fn completes(shell: &str, file: &str, offers: impl Fn(&Path, &str) -> Command) {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join(file);
    let script = finish(whylat("completions").arg(shell));
    script.assert_status(0);
    fs::write(&path, &script.out).expect("write");
    for (line, wanted) in KNOWN {
        let output = finish(&mut offers(&path, line));
        output.assert_status(0);
        assert_eq!(output.err, "", "{shell}, {line}");
        // zsh moves the cursor about between words, and closes those that want a value
        let mut words = output
            .out
            .split(|c: char| c.is_whitespace() || c.is_control());
        let is_offered = words.any(|word| word.trim_end_matches('=') == wanted);
        assert!(is_offered, "{shell}, {line}: {:?}", output.out);
    }
}

#[test]
fn bash_completes() {
    let script = r#"
        source "$0"
        read -ra COMP_WORDS <<<"$1"
        [[ $1 == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _whylat whylat "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    completes("bash", "whylat", |path, line| {
        let mut bash = Command::new("bash");
        bash.args(["-c", script]).arg(path).arg(line);
        bash
    });
}

#[test]
fn fish_completes() {
    completes("fish", "whylat.fish", |path, line| {
        let mut fish = Command::new("fish");
        // without the description of each
        let script = "source $argv[1]; complete -C $argv[2] | string split -f 1 \\t";
        fish.args(["--no-config", "-c", script]);
        fish.arg(path).arg(line);
        fish
    });
}

/// At a terminal, as zsh completes nowhere else: Tab is pressed when the prompt has come, and what follows is read until
/// the next command has run.
#[test]
fn zsh_completes() {
    let script = r#"
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell "PATH=$2:\$PATH fpath=($1 \$fpath) LISTMAX=0; autoload -Uz compinit; compinit -u -D; PS1='re%%dy> '"
        zpty -r shell screen '*re%dy> *'
        zpty -w -n shell "$3"$'\t'
        zpty -w shell $'\C-U'"print done-\$((1+1))"
        zpty -r shell screen '*done-2*'
        print -r -- "$screen""#;
    completes("zsh", "_whylat", |path, line| {
        let mut zsh = Command::new("zsh");
        zsh.args(["-f", "-c", script, "zsh"]);
        zsh.arg(path.parent().expect("its folder"));
        zsh.arg(Path::new(program()).parent().expect("its folder"));
        zsh.arg(line).env("TERM", "dumb");
        zsh
    });
}
