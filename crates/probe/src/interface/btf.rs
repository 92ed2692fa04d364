//! Reads the kernel's own type information (BTF).

use libbpf_rs::btf::types::{Enum, Func, FuncProto, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfType};

/// Helpers that the programs cannot do without; those that came last.
const HELPERS: [&str; 4] = [
    "sock_from_file",
    "task_storage_get",
    "get_current_task_btf",
    "task_pt_regs",
];

/// Why a kernel cannot run the programs, as its BTF shows.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The kernel carries no type information, which the programs need.
    #[error("this kernel has no BTF (/sys/kernel/btf/vmlinux): {0}")]
    Missing(String),
    /// The kernel is too old.
    #[error("this kernel has no BPF helper bpf_{0}, which the programs need")]
    NoHelper(&'static str),
}

impl BtfError {
    /// Returns what helps against the error.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Missing(_) => {
                "run a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are; \
                in a container, mount /sys/kernel/btf"
            }
            // the oldest that `make kernels` sees them run on
            Self::NoHelper(_) => "run Linux 6.1 or newer",
        }
    }
}

/// Returns whether the kernel has a tracepoint.
pub(super) fn has_tracepoint(btf: &Btf<'_>, name: &str) -> bool {
    let pointer = btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"));
    pointer.is_some()
}

/// Returns the kernel's BTF, if it has all that the programs cannot do without.
pub(crate) fn kernel_btf() -> Result<Btf<'static>, BtfError> {
    let btf = Btf::from_vmlinux().map_err(|error| BtfError::Missing(error.to_string()))?;
    match missing_helper(&btf) {
        Some(helper) => Err(BtfError::NoHelper(helper)),
        None => Ok(btf),
    }
}

/// Returns how many parameters a function of the kernel has; `None`: there is none of that name.
pub(super) fn parameters_of(btf: &Btf<'_>, name: &str) -> Option<usize> {
    let function: BtfType<'_> = *btf.type_by_name::<Func<'_>>(name)?;
    let prototype = FuncProto::try_from(function.next_type()?).ok()?;
    Some(prototype.iter().count())
}

/// Returns the number of parameters of a tracepoint's function; the first is the function's own
/// data.
pub(super) fn tracepoint_parameters(btf: &Btf<'_>, name: &str) -> Option<usize> {
    let pointer = btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))?;
    let prototype = FuncProto::try_from(pointer.next_type()?.next_type()?).ok()?;
    Some(prototype.iter().count())
}

/// Returns whether a struct of the kernel has a member.
pub(super) fn has_member(btf: &Btf<'_>, of: &str, member: &str) -> bool {
    let found = btf.type_by_name::<Struct<'_>>(of);
    found.is_some_and(|found| {
        found
            .iter()
            .any(|it| it.name.is_some_and(|name| name == member))
    })
}

/// Returns the first of [`HELPERS`] that is missing; `None`, too, where BTF does not list them.
fn missing_helper(btf: &Btf<'_>) -> Option<&'static str> {
    let helpers = btf.type_by_name::<Enum<'_>>("bpf_func_id")?;
    let has = |helper: &str| {
        let name = format!("BPF_FUNC_{helper}");
        helpers
            .iter()
            .any(|member| member.name.is_some_and(|found| *found == *name.as_str()))
    };
    HELPERS.into_iter().find(|helper| !has(helper))
}
