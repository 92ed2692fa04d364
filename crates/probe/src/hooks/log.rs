//! Describes what libbpf says. It goes nowhere, because what failed is reported once, by our errors; with
//! `WHYLAT_LIBBPF_LOG` set it goes to stderr. It alone names the program that a kernel refuses.

use std::cell::RefCell;

use libbpf_rs::PrintLevel;

thread_local! {
    /// The program refused last, by a load in this thread.
    static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Receives libbpf's messages from now on, to find refused programs.
pub(super) fn listen() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, on_message)));
}

/// Returns the program that the kernel refused in the last load; `None`: the load failed for another reason, or not at all.
pub(super) fn take_refused() -> Option<String> {
    REFUSED.take()
}

/// Prints libbpf's message if the user asked for it, and keeps the name of a refused program.
fn on_message(_: PrintLevel, text: String) {
    if std::env::var_os("WHYLAT_LIBBPF_LOG").is_some() {
        eprint!("{text}");
    }
    if let Some(program) = parse_refused_program(&text) {
        REFUSED.set(Some(program.to_owned()));
    }
}

/// Returns the name of the refused program, from the message of `bpf_object_load_prog()`.
fn parse_refused_program(text: &str) -> Option<&str> {
    let (program, what) = text.strip_prefix("libbpf: prog '")?.split_once("': ")?;
    what.starts_with("failed to load: ").then_some(program)
}

#[cfg(test)]
mod tests {
    use super::parse_refused_program;

    #[test]
    fn message_of_a_failed_load_names_the_program() {
        let text = "libbpf: prog 'handle_tcp_probe': failed to load: -EINVAL\n";
        assert_eq!(parse_refused_program(text), Some("handle_tcp_probe"));
        assert_eq!(
            parse_refused_program("libbpf: failed to load object 'hooks_bpf'\n"),
            None
        );
        let other = "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n";
        assert_eq!(parse_refused_program(other), None);
    }
}
