//! Tests the diagnosis on situations that were planted, recorded and kept.
//!
//! In: the plays of [`plays`], and for each a small recording in `recordings/` with what those who
//! took part knew (`truth.json`). Out: one test a play, which compares the report of the recording
//! with that truth. No root, no clock: the same answer on every machine.
//!
//! With `WHYLAT_PLAYS` they are planted and recorded again, as root; see `README.md` beside this.

mod claims;
mod kept;
mod paths;
mod play;
mod plays;
mod shrink;
mod truth;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use play::Mode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mode = match Mode::from_env() {
        Ok(mode) => mode,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials: Vec<Trial> = plays::all()
        .into_iter()
        .map(|play| {
            let name = play.name.clone();
            Trial::test(name, move || Ok(play.run(mode)?))
        })
        .collect();
    trials.extend(claims::all().into_iter().map(|(name, claim)| {
        let run = move || {
            claim();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(mode == Mode::Kept)
    }));
    trials.push(Trial::test("kept::recordings_are_small_and_known", || {
        kept::check();
        Ok(())
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}
