//! Numbers and addresses of the kernel → names: reasons from its BTF, functions from `/proc/kallsyms`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::{LazyLock, Mutex, OnceLock};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;

/// `SKB_DROP_REASON_SUBSYS_SHIFT` (`include/net/dropreason-core.h`).
const SUBSYSTEM_SHIFT: u32 = 16;

/// The names of this kernel: read once, as they do not change.
static NAMES: LazyLock<KernelNames> = LazyLock::new(KernelNames::read);

/// Returns the names of drop reasons and functions of this kernel.
pub(super) fn kernel_names() -> &'static KernelNames {
    &NAMES
}

/// Holds names of reasons and functions.
#[derive(Debug, Default)]
pub(super) struct KernelNames {
    reasons: HashMap<u32, String>,
    /// First number of the reasons of qdiscs; `None`: they have none of their own (before Linux 7.1).
    qdisc_base: Option<u32>,
    reset_reasons: HashMap<u32, String>,
    /// Opened while this process may see addresses, read when the first one is to be named.
    kallsyms: Mutex<Option<File>>,
    has_functions: bool,
    functions: OnceLock<Functions>,
}

impl KernelNames {
    /// Reads the names of drop reasons from the kernel's BTF, and functions from kallsyms.
    fn read() -> Self {
        let btf = Btf::from_vmlinux().ok();
        let reasons = |of, prefix| {
            let btf = btf.as_ref();
            btf.map(|btf| enum_names(btf, of, prefix))
                .unwrap_or_default()
        };
        let mut all = reasons("skb_drop_reason", "SKB_DROP_REASON_");
        let subsystems = reasons("skb_drop_reason_subsys", "SKB_DROP_REASON_SUBSYS_");
        let qdiscs = subsystems.iter().find(|(_, name)| *name == "QDISC");
        let qdisc_base = qdiscs.map(|(number, _)| number << SUBSYSTEM_SHIFT);
        if let Some(base) = qdisc_base {
            let own = reasons("qdisc_drop_reason", "").into_iter();
            all.extend(own.filter(|(number, _)| *number > base));
        }
        Self {
            reasons: all,
            qdisc_base,
            reset_reasons: reasons("sk_rst_reason", "SK_RST_REASON_"),
            kallsyms: Mutex::new(File::open("/proc/kallsyms").ok()),
            has_functions: shows_addresses(),
            functions: OnceLock::new(),
        }
    }

    /// Makes names for tests.
    #[cfg(test)]
    pub(super) fn from_parts(reasons: &[(u32, &str)], kallsyms: &str) -> Self {
        let functions = OnceLock::new();
        let _ = functions.set(Functions::read(kallsyms.as_bytes()));
        Self {
            reasons: reasons
                .iter()
                .map(|(number, name)| (*number, (*name).to_owned()))
                .collect(),
            functions,
            ..Self::default()
        }
    }

    /// Returns the name of a reason of a drop.
    pub(super) fn reason(&self, number: u32) -> Option<&str> {
        self.reasons.get(&number).map(String::as_str)
    }

    /// Returns the reason of all drops by qdiscs, and the first number of their own reasons.
    pub(super) fn qdisc_reasons(&self) -> Option<(u32, u32)> {
        let mut reasons = self.reasons.iter();
        let (general, _) = reasons.find(|(_, name)| *name == "QDISC_DROP")?;
        Some((*general, self.qdisc_base?))
    }

    /// Returns the name of a reason of a reset.
    pub(super) fn reset_reason(&self, number: u32) -> Option<&str> {
        self.reset_reasons.get(&number).map(String::as_str)
    }

    /// Returns whether addresses of functions are to be seen here.
    pub(super) fn has_functions(&self) -> bool {
        self.has_functions
    }

    /// Returns the function to which a call returns.
    pub(super) fn function(&self, return_address: u64) -> Option<&str> {
        let functions = self.functions.get_or_init(|| {
            let file = self.kallsyms.lock().ok().and_then(|mut file| file.take());
            file.map(|file| Functions::read(BufReader::new(file)))
                .unwrap_or_default()
        });
        // a call may be a function's last instruction
        functions.find(return_address.checked_sub(1)?)
    }
}

/// The first functions of the list have addresses.
fn shows_addresses() -> bool {
    let Ok(file) = File::open("/proc/kallsyms") else {
        return false;
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    lines
        .take(64)
        .any(|line| parse(&line).is_some_and(|(address, _)| address != 0))
}

/// The members of an enum of the kernel, without the prefix of most.
fn enum_names(btf: &Btf<'_>, name: &str, prefix: &str) -> HashMap<u32, String> {
    let Some(found) = btf.type_by_name::<Enum<'_>>(name) else {
        return HashMap::new();
    };
    let members = found.iter().filter_map(|member| {
        let name = member.name?.to_str()?;
        let name = name.strip_prefix(prefix).unwrap_or(name);
        Some((number(member.value), name.to_owned()))
    });
    members.collect()
}

/// Returns a value of an enum as 32 bits.
fn number(value: i64) -> u32 {
    value as u32
}

/// Holds functions of the kernel, in the order of their addresses.
#[derive(Debug, Default)]
struct Functions {
    starts: Vec<(u64, u32)>,
    names: String,
}

impl Functions {
    /// Reads the functions of kallsyms; none if addresses are hidden.
    fn read(kallsyms: impl BufRead) -> Self {
        let mut all = Self::default();
        for line in kallsyms.lines().map_while(Result::ok) {
            let Some((address, name)) = parse(&line).filter(|(address, _)| *address != 0) else {
                continue;
            };
            let Ok(at) = u32::try_from(all.names.len()) else {
                break;
            };
            all.starts.push((address, at));
            all.names.push_str(name);
            all.names.push('\n');
        }
        all.starts.sort_by_key(|(address, _)| *address);
        all
    }

    /// Returns the function that has this address; None if it is below all.
    fn find(&self, address: u64) -> Option<&str> {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let (_, at) = self.starts.get(after.checked_sub(1)?)?;
        self.names.get(*at as usize..)?.split('\n').next()
    }
}

/// A line `ffffffff81000000 T name.suffix [module]` of code, without what compilers add to the name.
fn parse(line: &str) -> Option<(u64, &str)> {
    let mut fields = line.split_ascii_whitespace();
    let address = u64::from_str_radix(fields.next()?, 16).ok()?;
    let kind = fields.next()?;
    let name = fields.next()?.split('.').next()?;
    matches!(kind, "t" | "T" | "w" | "W").then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_return_address() {
        let names = KernelNames::from_parts(
            &[],
            "0000000000000200 t nft_do_chain.constprop.0\t[nf_tables]\n\
             0000000000000100 T tcp_v4_rcv\n\
             0000000000000180 d tcp_death_row\n",
        );
        assert_eq!(names.function(0x1ff), Some("tcp_v4_rcv"));
        // the call was the last instruction
        assert_eq!(names.function(0x200), Some("tcp_v4_rcv"));
        assert_eq!(names.function(0x201), Some("nft_do_chain"));
        assert_eq!(names.function(0x100), None);
    }

    #[test]
    fn this_kernel_names_its_reasons() {
        let names = kernel_names();
        if names.reasons.is_empty() {
            eprintln!("skipped: this kernel has no reasons");
            return;
        }
        let all: Vec<&String> = names.reasons.values().collect();
        assert!(all.iter().any(|name| *name == "NO_SOCKET"), "{all:?}");
    }
}
