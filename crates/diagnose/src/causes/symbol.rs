//! Names of functions in the kernel's symbol table, and what they were in its source.

/// Suffixes that compilers put behind the name of a function that they cloned, split or renamed, each maybe
/// with a number.
const SUFFIXES: [&str; 7] = [
    "isra",
    "constprop",
    "part",
    "cold",
    "llvm",
    "lto_priv",
    "resolver",
];

/// Prefixes that the macros of `include/linux/syscalls.h` and of the architectures put before a system call's
/// name.
const SYSCALLS: [&str; 8] = [
    "__x64_sys_",
    "__ia32_compat_sys_",
    "__ia32_sys_",
    "__arm64_sys_",
    "__se_sys_",
    "__do_sys_",
    "ksys_",
    "sys_",
];

/// Returns a name without suffixes that a compiler added.
pub(super) fn strip_suffixes(name: &str) -> &str {
    let mut plain = name;
    while let Some((before, last)) = plain.rsplit_once('.') {
        let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
        if before.is_empty() || !(is_number || SUFFIXES.contains(&last)) {
            break;
        }
        plain = before;
    }
    plain
}

/// The system call that a function is the body of.
pub(super) fn syscall(name: &str) -> Option<&str> {
    let found = SYSCALLS.iter().find_map(|prefix| name.strip_prefix(prefix));
    found.filter(|call| !call.is_empty())
}
