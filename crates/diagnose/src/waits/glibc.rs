//! Names of functions of glibc as programs call them. Its symbols have names for its own use, too, and whoever looks for the
//! name of an address may find any of these.

/// Prefixes of glibc's own names of a function: of an alias within the library (`hidden_proto` in `include/libc-symbols.h`),
/// and of the code behind a versioned name (`versioned_symbol`).
const PREFIXES: [&str; 2] = ["__GI_", "___"];

/// Prefix of the code behind a name (`weak_alias (__libc_recv, recv)`).
const CODE_PREFIX: &str = "__libc_";

/// Functions with such code: system calls (`sysdeps/unix/sysv/linux`, `nptl`) and memory (`malloc`). Others keep the prefix:
/// nobody calls `__libc_start_main` by another name.
const WITH_CODE: [&str; 46] = [
    "accept",
    "calloc",
    "close",
    "connect",
    "fcntl",
    "fcntl64",
    "fork",
    "free",
    "fsync",
    "lseek",
    "lseek64",
    "malloc",
    "memalign",
    "msgrcv",
    "msgsnd",
    "msync",
    "open",
    "open64",
    "openat",
    "openat64",
    "pause",
    "pread",
    "pread64",
    "pvalloc",
    "pwrite",
    "pwrite64",
    "read",
    "readv",
    "realloc",
    "recv",
    "recvfrom",
    "recvmsg",
    "select",
    "send",
    "sendmsg",
    "sendto",
    "sigaction",
    "system",
    "tcdrain",
    "valloc",
    "vfork",
    "wait",
    "waitid",
    "waitpid",
    "write",
    "writev",
];

/// Returns the name of a function that programs call; of any other function, its own.
pub(super) fn public_name(function: &str) -> &str {
    let prefixed = PREFIXES.iter().find_map(|it| function.strip_prefix(it));
    let prefixed = prefixed.filter(|name| name.contains(char::is_alphanumeric));
    let name = prefixed.unwrap_or(function);
    let called = name.strip_prefix(CODE_PREFIX);
    match called.filter(|called| WITH_CODE.contains(called)) {
        Some(called) => called,
        None if prefixed.is_some() && !name.starts_with(CODE_PREFIX) => {
            name.trim_start_matches('_')
        }
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_glibc_have_the_names_that_programs_call() {
        for (function, name) in [
            ("__GI___clock_nanosleep", "clock_nanosleep"),
            ("__GI___poll", "poll"),
            ("__GI_fdatasync", "fdatasync"),
            ("__GI___libc_read", "read"),
            ("__libc_recv", "recv"),
            ("___pthread_cond_timedwait64", "pthread_cond_timedwait64"),
            ("__libc_start_call_main", "__libc_start_call_main"),
            ("__GI___libc_start_main", "__libc_start_main"),
            ("__schedule", "__schedule"),
            ("clock_nanosleep", "clock_nanosleep"),
            ("__GI_", "__GI_"),
        ] {
            assert_eq!(public_name(function), name);
        }
    }
}
