//! Commands that read untrusted recordings and traces can only read and write files: a filter
//! of system calls (seccomp) leaves it no network, no programs, no processes, no new code in memory, and no way back.
//!
//! Why it exists: users send recordings to whoever helps them, and decoders of Parquet, ELF and traces are large.
//!
//! The list is of what is allowed. A call that is not on it ends the program with a message; it is a fault either of
//! what was read, which tries to make whylat do something else, or of this list.

use std::collections::BTreeMap;
use std::ffi::c_int;

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use crate::exit;

/// Set to `off`, it leaves the filter away.
const VARIABLE: &str = "WHYLAT_SECCOMP";

/// Confines this process from now on; a failure is only a warning.
pub(crate) fn confine_process() {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "off") {
        return;
    }
    if let Err(why) = apply() {
        eprintln!("note: reading without a filter of system calls: {why}");
    }
}

/// Restricts this process to the system calls that reading needs.
fn apply() -> anyhow::Result<()> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = |rules, otherwise, matched| -> anyhow::Result<_> {
        let filter = SeccompFilter::new(rules, otherwise, matched, arch)?;
        Ok(seccompiler::BpfProgram::try_from(filter)?)
    };
    // The flags of clone3(2) lie in memory, where no filter sees them: a program that gets ENOSYS for it
    // uses clone(2).
    let none = SeccompAction::Errno(libc::ENOSYS as u32);
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let clone3 = filter(clone3, SeccompAction::Allow, none)?;
    let others = filter(allowed_calls()?, SeccompAction::Trap, SeccompAction::Allow)?;
    report_refusals()?;
    seccompiler::apply_filter_all_threads(&clone3)?;
    Ok(seccompiler::apply_filter_all_threads(&others)?)
}

/// System calls that are allowed whatever their arguments are: files, memory, time, and this process's own threads.
const PLAIN: &[libc::c_long] = &[
    // files
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_fchmod,
    libc::SYS_umask,
    libc::SYS_ppoll,
    // memory
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_getrandom,
    // time, threads and signals
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_clone3,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_membarrier,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // who starts a browser before waits for it
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // what this process is
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// The older names of some, which later architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

type Rules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

/// Returns the system calls that are allowed.
fn allowed_calls() -> anyhow::Result<Rules> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let plain = PLAIN.iter().chain(OLDER);
    let mut rules: Rules = plain.map(|call| (*call, Vec::new())).collect();
    let mut also = |call, argument, compare, value: u64| -> anyhow::Result<()> {
        let length = SeccompCmpArgLen::Dword;
        let condition = SeccompCondition::new(argument, length, compare, value)?;
        let rule = SeccompRule::new(vec![condition])?;
        rules.entry(call).or_default().push(rule);
        Ok(())
    };
    // memory, but no code
    let executable = MaskedEq(libc::PROT_EXEC as u64);
    also(libc::SYS_mmap, 2, executable.clone(), 0)?;
    also(libc::SYS_mprotect, 2, executable, 0)?;
    // threads, but no processes
    let thread = libc::CLONE_THREAD as u64;
    also(libc::SYS_clone, 0, MaskedEq(thread), thread)?;
    // whether there is a terminal, and how wide it is
    for request in [libc::TCGETS, libc::TCGETS2, libc::TIOCGWINSZ] {
        also(libc::SYS_ioctl, 1, Eq, request)?;
    }
    // names of threads and of memory
    for option in [libc::PR_SET_NAME, libc::PR_SET_VMA] {
        also(libc::SYS_prctl, 0, Eq, option as u64)?;
    }
    // limits: asked for, not set
    also(libc::SYS_prlimit64, 2, Eq, 0)?;
    // abort(3)
    also(libc::SYS_tgkill, 0, Eq, std::process::id().into())?;
    Ok(rules)
}

/// Installs the handler that reports a refused system call.
fn report_refusals() -> anyhow::Result<()> {
    let action = SigAction::new(
        SigHandler::SigAction(report_refused_call),
        SaFlags::SA_SIGINFO,
        SigSet::empty(),
    );
    // SAFETY: the handler makes nothing but system calls, and ends the process.
    unsafe { sigaction(Signal::SIGSYS, &action) }?;
    Ok(())
}

/// Prints the refused system call, and ends the process.
extern "C" fn report_refused_call(_: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    /// Of `si_syscall` in a `siginfo_t` of SIGSYS (`uapi/asm-generic/siginfo.h`): after three numbers, padding, and
    /// the address of the call.
    const SYSCALL_AT: usize = 24;
    // SAFETY: the kernel gives a `siginfo_t`, which is larger and lives as long as the handler runs.
    let number = unsafe { info.cast::<u8>().add(SYSCALL_AT).cast::<i32>().read() };
    let name = usize::try_from(number).ok().and_then(syscalls::Sysno::new);
    for text in [
        "error: refused the system call ",
        name.map_or("of an unknown name", |name| name.name()),
        ", which a reader does not need\nhint: do not trust this recording or trace. If you made it yourself, \
            report this. WHYLAT_SECCOMP=off reads without the filter\n",
    ] {
        // SAFETY: memory that lives as long as the program, with its length. A message that nobody can be given is
        // no reason to go on.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: it ends the process at once.
    unsafe { libc::_exit(exit::FAILED.into()) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    /// Names what the process of the test itself is to try, once it is confined.
    const ATTEMPT: &str = "WHYLAT_TEST_ATTEMPT";

    type Attempt = (&'static str, &'static str, fn());

    /// Makes a system call by its number.
    fn call(number: libc::c_long, arguments: [libc::c_long; 4]) {
        let [a, b, c, d] = arguments;
        // SAFETY: either refused, or with arguments that do nothing.
        unsafe { libc::syscall(number, a, b, c, d) };
    }

    /// Attempts of damaged or hostile files: name, system call, and arguments.
    const ATTEMPTS: &[Attempt] = &[
        ("connect", "socket", || {
            let _ = std::net::TcpStream::connect("127.0.0.1:9");
        }),
        ("listen", "socket", || {
            let _ = std::net::TcpListener::bind("127.0.0.1:0");
        }),
        ("local", "socket", || {
            let _ = std::os::unix::net::UnixDatagram::unbound();
        }),
        ("execute", "execve", || {
            let none = [std::ptr::null()];
            // SAFETY: a C string and two lists that end at once.
            unsafe { libc::execve(c"/bin/true".as_ptr(), none.as_ptr(), none.as_ptr()) };
        }),
        ("fork", "clone", || {
            // SAFETY: refused; a child would end at once.
            if unsafe { libc::fork() } == 0 {
                // SAFETY: ends the process without running anything of it.
                unsafe { libc::_exit(0) }
            }
        }),
        ("trace", "ptrace", || call(libc::SYS_ptrace, [-1, 0, 0, 0])),
        ("code", "mprotect", || {
            call(libc::SYS_mprotect, [0, 0, libc::PROT_EXEC.into(), 0]);
        }),
        ("program", "bpf", || call(libc::SYS_bpf, [-1, 0, 0, 0])),
        ("user", "setresuid", || {
            call(libc::SYS_setresuid, [-1, -1, -1, 0])
        }),
        ("mount", "mount", || call(libc::SYS_mount, [0, 0, 0, 0])),
        ("namespace", "unshare", || {
            call(libc::SYS_unshare, [0, 0, 0, 0])
        }),
        ("signal", "kill", || call(libc::SYS_kill, [0, 0, 0, 0])),
        ("clipboard", "ioctl", || {
            call(libc::SYS_ioctl, [0, libc::TIOCSTI as libc::c_long, 0, 0]);
        }),
        ("ring", "io_uring_setup", || {
            call(libc::SYS_io_uring_setup, [0, 0, 0, 0]);
        }),
    ];

    /// Runs this test in another process, which makes `attempt`.
    fn other_process(attempt: &str) -> Output {
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.args([
            "--exact",
            "confine::tests::confined_reader_cannot_do_more",
            "--nocapture",
        ]);
        own.env(ATTEMPT, attempt).output().unwrap()
    }

    /// Confines the process, makes one forbidden attempt, then what readers do.
    fn attempt(wanted: &str) {
        confine_process();
        for (name, _, make) in ATTEMPTS {
            if *name == wanted {
                make();
            }
        }
        // what readers do
        let dir = std::env::temp_dir().join(format!("whylat-confined-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("a"), vec![7; 1 << 20]).unwrap();
        std::fs::copy(dir.join("a"), dir.join("b")).unwrap();
        let read = std::thread::spawn(|| std::fs::read("/proc/self/status")).join();
        std::fs::remove_dir_all(&dir).unwrap();
        let status = String::from_utf8(read.unwrap().unwrap()).unwrap();
        assert!(status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1"));
        println!("did what readers do");
    }

    #[test]
    fn confined_reader_cannot_do_more() {
        if let Ok(wanted) = std::env::var(ATTEMPT) {
            return attempt(&wanted);
        }
        let plain = other_process("nothing");
        let out = String::from_utf8_lossy(&plain.stdout);
        assert!(out.contains("did what readers do"), "{plain:?}");
        for (name, call, _) in ATTEMPTS {
            let ended = other_process(name);
            let err = String::from_utf8_lossy(&ended.stderr);
            let refusal = format!("error: refused the system call {call},");
            assert!(
                err.contains(&refusal) && err.contains("hint: "),
                "{name}: {ended:?}"
            );
            assert_eq!(ended.status.code(), Some(1), "{name}");
        }
    }
}
