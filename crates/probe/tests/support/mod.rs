//! Network namespaces and sockets for the tests: made for one test, gone with it.

use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};
use whylat_probe::netns::Netns;

/// A network namespace that a child process holds open until this is dropped.
pub struct OwnNetns {
    holder: Child,
    pub netns: Netns,
}

impl OwnNetns {
    /// A new namespace with a working loopback device.
    pub fn new() -> Self {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped());
        // SAFETY: `unshare` is a plain system call, allowed between fork and exec.
        unsafe { command.pre_exec(|| Ok(unshare(CloneFlags::CLONE_NEWNET)?)) };
        let holder = command.spawn().expect("root can make a network namespace");
        // `spawn` returns after the child's exec, and so after its `unshare`.
        let path = format!("/proc/{}/ns/net", holder.id());
        let netns = Netns::open(path.as_ref()).expect("the holder is alive");
        let own = Self { holder, netns };
        own.ip("link set lo up");
        own
    }

    /// Returns the pid of the process that holds the namespace.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// Runs `ip ARGUMENTS` inside.
    pub fn ip(&self, arguments: &str) {
        let file = std::fs::File::open(format!("/proc/{}/ns/net", self.holder.id())).unwrap();
        let mut command = Command::new("ip");
        command.args(arguments.split(' '));
        // SAFETY: `setns` is a plain system call, allowed between fork and exec.
        unsafe { command.pre_exec(move || Ok(setns(&file, CloneFlags::CLONE_NEWNET)?)) };
        assert!(command.status().unwrap().success(), "ip {arguments}");
    }

    /// A connection within the namespace: connecting end, accepting end, listener.
    pub fn connection(&self, address: &str) -> (TcpStream, TcpStream, TcpListener) {
        let listener = self
            .netns
            .run(|| TcpListener::bind((address, 0)).unwrap())
            .unwrap();
        let to = listener.local_addr().unwrap();
        let client = self.netns.run(|| TcpStream::connect(to).unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, server, listener)
    }
}

impl Drop for OwnNetns {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Returns a socket option of plain integers, as the kernel fills it in.
pub fn option<T: Copy>(socket: &impl AsRawFd, level: i32, name: i32) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has `len` bytes and the kernel writes at most that many.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &mut len,
        )
    };
    assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: all bytes are initialised, and any bytes are valid integers.
    unsafe { value.assume_init() }
}

/// The socket's cookie, from the socket itself.
pub fn cookie(socket: &impl AsRawFd) -> u64 {
    option(socket, libc::SOL_SOCKET, libc::SO_COOKIE)
}

/// Repeats `attempt` until it gives a value; fails after ten seconds.
pub fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::yield_now();
    }
}
