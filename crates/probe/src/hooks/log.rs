//! Describes what libbpf says. It goes nowhere, because what failed is reported once, by our errors; with
//! `WHYLAT_LIBBPF_LOG` set it goes to stderr. It alone names the program that a kernel refuses.

use std::cell::RefCell;

use libbpf_rs::PrintLevel;

thread_local! {
    /// The program refused last, by a load in this thread.
    static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Listens from now on.
pub(super) fn listen() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, heard)));
}

/// The program on which the last load failed, if it was on one.
pub(super) fn take_refused() -> Option<String> {
    REFUSED.take()
}

fn heard(_: PrintLevel, text: String) {
    if std::env::var_os("WHYLAT_LIBBPF_LOG").is_some() {
        eprint!("{text}");
    }
    if let Some(program) = refused_in(&text) {
        REFUSED.set(Some(program.to_owned()));
    }
}

/// The program in `bpf_object_load_prog()`'s message.
fn refused_in(text: &str) -> Option<&str> {
    let (program, what) = text.strip_prefix("libbpf: prog '")?.split_once("': ")?;
    what.starts_with("failed to load: ").then_some(program)
}

#[cfg(test)]
mod tests {
    use super::refused_in;

    #[test]
    fn the_refused_program_is_named() {
        let text = "libbpf: prog 'handle_tcp_probe': failed to load: -EINVAL\n";
        assert_eq!(refused_in(text), Some("handle_tcp_probe"));
        assert_eq!(
            refused_in("libbpf: failed to load object 'hooks_bpf'\n"),
            None
        );
        let other = "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n";
        assert_eq!(refused_in(other), None);
    }
}
