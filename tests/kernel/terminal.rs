//! Programs in a real terminal (tmux), by keys and screens.

use std::process::Command;

use tempfile::TempDir;

use testbed::{ChildGuard, finish, until};

/// A terminal of its own: a tmux server that ends with the test.
pub struct Terminal {
    _server: ChildGuard,
    socket: TempDir,
}

impl Terminal {
    /// Runs `script` in a terminal of 80 × 24.
    pub fn run(script: &str) -> Self {
        let socket = tempfile::tempdir().expect("a temporary directory");
        let path = socket.path().join("tmux");
        let mut server = Command::new("tmux");
        // in the foreground, without anybody's settings
        server.args(["-D", "-f", "/dev/null", "-S"]).arg(&path);
        let server = ChildGuard::start(server.env("LC_ALL", "C.UTF-8").env_remove("TMUX"));
        until("tmux listens", || path.exists().then_some(()));
        let terminal = Terminal {
            _server: server,
            socket,
        };
        let started = || {
            let size = ["new-session", "-d", "-x", "80", "-y", "24"];
            let mut session = terminal.tmux(&size);
            let done = session.arg(script).output().expect("tmux");
            done.status.success().then_some(())
        };
        until("a session", started);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command
            .arg("-S")
            .arg(self.socket.path().join("tmux"))
            .args(arguments);
        command.env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        command
    }

    pub fn ask(&self, arguments: &[&str]) -> String {
        finish(&mut self.tmux(arguments))
            .assert_status(0)
            .out
            .clone()
    }

    /// Presses keys, as tmux names them.
    pub fn press(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    /// The screen once it holds all of `wanted`, and nothing of `unwanted`.
    #[track_caller]
    pub fn shows(&self, wanted: &[&str], unwanted: &[&str]) -> String {
        let mut last = String::new();
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until(
                &format!("{wanted:?} without {unwanted:?} on the screen"),
                || {
                    last = self.ask(&["capture-pane", "-p"]);
                    let all = wanted.iter().all(|text| last.contains(text));
                    (all && !unwanted.iter().any(|text| last.contains(text))).then(|| last.clone())
                },
            )
        }));
        seen.unwrap_or_else(|_| panic!("expected {wanted:?} without {unwanted:?}:\n{last}"))
    }

    /// Whether a program has the whole screen, and whether there is a cursor.
    pub fn state(&self) -> String {
        self.ask(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"])
            .trim()
            .to_owned()
    }

    /// The terminal is the shell's again, and `whylat` ended with this code.
    #[track_caller]
    pub fn given_back(&self, code: i32) {
        self.shows(&[&format!("ended {code}"), "icanon"], &["HELD BY"]);
        assert_eq!(self.state(), "0 1");
    }
}
