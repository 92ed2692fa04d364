//! The lab's own command, so that its programs can be run and tested without the rest:
//! `whylat-lab workload ROLE …` and `whylat-lab wire …`. The `whylat` command calls the
//! same functions.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let mut word = args.next();
    // Faults start their roles as `whylat` has them: `PROGRAM lab workload …`.
    if word.as_ref().is_some_and(|word| word == "lab") {
        word = args.next();
    }
    match word.as_ref().and_then(|word| word.to_str()) {
        Some("workload") => whylat_lab::workload::main(args),
        Some("wire") => whylat_lab::wire::command::main(args),
        Some("fault") => whylat_lab::fault::command::main(args),
        Some("list") => whylat_lab::fault::command::run_list(args),
        _ => {
            eprintln!(
                "error: no such command\nhint: whylat-lab fault --help, list, workload --help, or wire --help"
            );
            ExitCode::from(2)
        }
    }
}
