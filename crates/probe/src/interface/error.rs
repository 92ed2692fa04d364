//! Describes what can go wrong between the object file and running programs, and what fixes it.

use libbpf_rs::{ErrorKind, ProgramType};

use super::btf::{BtfError, kernel_btf};
use crate::privileges::{Capability, Privileges};

/// Why the programs do not run.
#[derive(Debug, thiserror::Error)]
pub enum HooksError {
    /// The kernel refused to load the programs.
    #[error("cannot load BPF programs: {0}")]
    Load(libbpf_rs::Error),
    /// The kernel refused to load a program that nothing can do without.
    #[error("cannot load BPF program {program}: {error}")]
    Refused {
        /// Name of the program.
        program: String,
        /// Cause.
        error: libbpf_rs::Error,
    },
    /// A program could not be attached.
    #[error("cannot attach BPF program {program}: {error:#}")]
    Attach {
        /// Name of the program.
        program: String,
        /// Cause.
        error: libbpf_rs::Error,
    },
    /// A loaded program or map could not be used.
    #[error("cannot {action}: {error}")]
    Use {
        /// The step that failed.
        action: &'static str,
        /// Cause.
        error: libbpf_rs::Error,
    },
    /// An iterator could not be read.
    #[error("cannot read {what} from the kernel: {error}")]
    Read {
        /// The thing that was read.
        what: &'static str,
        /// Cause.
        error: std::io::Error,
    },
    /// The kernel cannot run the programs at all.
    #[error(transparent)]
    Btf(BtfError),
}

impl HooksError {
    /// Returns a function that turns libbpf's error into the error of attaching this program.
    pub(crate) fn attach(program: &str) -> impl Fn(libbpf_rs::Error) -> Self {
        move |error| Self::Attach {
            program: program.to_owned(),
            error,
        }
    }

    /// Returns whether a privilege is missing.
    pub fn is_permission(&self) -> bool {
        let denied = libbpf_rs::ErrorKind::PermissionDenied;
        matches!(
            self,
            Self::Load(error) | Self::Refused { error, .. } | Self::Attach { error, .. }
                if error.kind() == denied
        )
    }

    /// Returns what helps against the error.
    pub fn remedy(&self) -> String {
        let needs = [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin];
        match self {
            _ if self.is_permission() => Privileges::read().remedy(&needs),
            Self::Btf(error) => error.remedy().to_owned(),
            Self::Load(error) | Self::Refused { error, .. } | Self::Attach { error, .. } => {
                remedy_of(error.kind())
            }
            Self::Read { error, .. } if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Privileges::read().remedy(&needs)
            }
            Self::Use { .. } | Self::Read { .. } => REPORT.to_owned(),
        }
    }
}

/// The remedy where the kernel has all that is known to be needed.
const REPORT: &str = "report what `WHYLAT_LIBBPF_LOG=1 whylat doctor` says";

/// Returns what helps against a refusal that no privilege explains.
fn remedy_of(refused: ErrorKind) -> String {
    if refused == ErrorKind::OutOfMemory {
        return "free memory, or raise the memory limit of this container or service".to_owned();
    }
    if let Err(lack) = kernel_btf() {
        return lack.remedy().to_owned();
    }
    // it comes with programs at tracepoints, and is the simplest of its kind to try
    if matches!(ProgramType::PerfEvent.is_supported(), Ok(false)) {
        return "run a kernel built with CONFIG_BPF_EVENTS=y, as distributions' are".to_owned();
    }
    REPORT.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the error of a load that failed with this errno.
    fn load(errno: i32) -> HooksError {
        HooksError::Load(libbpf_rs::Error::from_raw_os_error(errno))
    }

    #[test]
    fn remedy_names_what_the_kernel_lacks() {
        let remedy = load(libc::ENOMEM).remedy();
        assert!(remedy.starts_with("free memory"), "{remedy}");
        let known = match kernel_btf() {
            Ok(_) => vec![
                REPORT.to_owned(),
                "run a kernel built with CONFIG_BPF_EVENTS=y, as distributions' are".to_owned(),
            ],
            Err(lack) => vec![lack.remedy().to_owned()],
        };
        let remedy = load(libc::EINVAL).remedy();
        assert!(known.contains(&remedy), "{remedy}");
    }

    #[test]
    fn remedy_of_a_refused_read_is_that_of_a_refused_load() {
        let error = std::io::Error::from_raw_os_error(libc::EACCES);
        let what = "perf's events of page faults";
        let denied = load(libc::EPERM).remedy();
        assert_eq!(HooksError::Read { what, error }.remedy(), denied);
    }
}
