//! Describes what the threads of a process are doing at a moment, without BPF. In: `/proc/PID/task`, which shows for
//! each thread that is off its CPU the system call and its arguments. Out: what it waits for, by the list that `waits`
//! uses.
//!
//! One look at a thread reads two small files, and one link where it waits for a descriptor.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;

use table::WaitObject;

use super::waits_for;
use crate::inventory::kinds::protocol_name;
use crate::wire::types::syscall_object;

/// Most threads that one look takes: of a process with more, each look takes the next ones.
pub const MOST_THREADS: usize = 256;

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// It was on a CPU, or could have been.
    Runs,
    /// It waited for this.
    Waits(WaitObject),
}

/// A thread at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSnapshot {
    /// Says which.
    pub tid: u32,
    /// Its state.
    pub doing: ThreadState,
    /// CPU time that it had used by then, ns: as long as that is the same, so is the wait. `None`: the kernel does
    /// not say.
    pub ran_ns: Option<u64>,
}

/// A process at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessSnapshot {
    /// Its threads, or [`MOST_THREADS`] of them.
    pub threads: Vec<ThreadSnapshot>,
    /// How many it has.
    pub number: usize,
}

/// Looks at the threads of one process.
#[derive(Debug)]
pub struct ThreadSampler {
    pid: u32,
    /// The thread after which the next look begins.
    last: u32,
}

impl ThreadSampler {
    /// Creates a sampler of the threads of this process.
    pub fn new(pid: u32) -> Self {
        Self { pid, last: 0 }
    }

    /// Samples all threads of the process once.
    ///
    /// # Errors
    /// When the process is gone, or another user's and the privilege is missing.
    pub fn sample(&mut self) -> io::Result<ProcessSnapshot> {
        let tids = self.tids()?;
        let first = tids.partition_point(|tid| *tid <= self.last);
        let (before, after) = tids.split_at(first);
        let mut threads = Vec::new();
        for tid in after.iter().chain(before).take(MOST_THREADS) {
            // one that ended meanwhile is left out
            match self.thread(*tid) {
                Ok(thread) => threads.push(thread),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                Err(_) => {}
            }
            self.last = *tid;
        }
        Ok(ProcessSnapshot {
            threads,
            number: tids.len(),
        })
    }

    /// Returns the ids of all threads, in order.
    fn tids(&self) -> io::Result<Vec<u32>> {
        let entries = fs::read_dir(format!("/proc/{}/task", self.pid))?.flatten();
        let mut tids: Vec<u32> = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        tids.sort_unstable();
        Ok(tids)
    }

    /// Returns what a thread waits for now, and its CPU time so far.
    fn thread(&self, tid: u32) -> io::Result<ThreadSnapshot> {
        let at = format!("/proc/{}/task/{tid}", self.pid);
        let call = fs::read_to_string(format!("{at}/syscall"))?;
        let ran = fs::read_to_string(format!("{at}/schedstat")).ok();
        let ran_ns = ran.and_then(|text| text.split(' ').next()?.parse().ok());
        Ok(ThreadSnapshot {
            tid,
            doing: parse(&call).map_or(ThreadState::Runs, |call| {
                ThreadState::Waits(self.object(call))
            }),
            ran_ns,
        })
    }

    /// Returns what a system call waits for.
    fn object(&self, call: Call) -> WaitObject {
        match waits_for(call.number) {
            syscall_object::SYSCALL_FILE => self.file(call),
            syscall_object::SYSCALL_EPOLL => WaitObject::Epoll,
            syscall_object::SYSCALL_POLL => WaitObject::Poll,
            syscall_object::SYSCALL_SELECT => WaitObject::Select,
            syscall_object::SYSCALL_FUTEX => WaitObject::Futex,
            syscall_object::SYSCALL_SLEEP => WaitObject::Sleep,
            syscall_object::SYSCALL_CHILD => WaitObject::Child,
            syscall_object::SYSCALL_SIGNAL => WaitObject::Signal,
            syscall_object::SYSCALL_IO_URING => WaitObject::IoUring,
            _ => WaitObject::Other,
        }
    }

    /// Returns the kind of the file of the call's first argument.
    fn file(&self, call: Call) -> WaitObject {
        let path = format!("/proc/{}/fd/{}", self.pid, call.first as u32);
        let Ok(target) = fs::read_link(&path) else {
            return WaitObject::Other;
        };
        let target = target.as_os_str().to_string_lossy();
        let is_fifo = || fs::metadata(&path).is_ok_and(|it| it.file_type().is_fifo());
        match target.split_once(':') {
            Some(("socket", _)) => socket(&protocol_name(&path), call.number),
            Some(("pipe", _)) => WaitObject::Pipe,
            Some(("anon_inode", "[eventpoll]")) => WaitObject::Epoll,
            Some(("anon_inode", _)) => WaitObject::Event,
            _ if is_fifo() => WaitObject::Pipe,
            _ => WaitObject::File,
        }
    }
}

/// Returns the kind of socket that a call waits for, by its protocol.
fn socket(protocol: &str, call: libc::c_long) -> WaitObject {
    let accepts = [libc::SYS_accept, libc::SYS_accept4].contains(&call);
    match protocol.trim_end_matches("v6") {
        "TCP" | "MPTCP" if accepts => WaitObject::Listener,
        "TCP" | "MPTCP" => WaitObject::Connection,
        "UDP" | "UDPLITE" | "UDP-Lite" | "UDPLITE-Lite" | "RAW" | "PING" => WaitObject::Datagram,
        name if name.starts_with("UNIX") => WaitObject::Unix,
        _ => WaitObject::Socket,
    }
}

/// A system call that a thread is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    /// −1: none, as in a page fault or where a signal stopped it.
    number: libc::c_long,
    first: u64,
}

/// Parses a line of `/proc/PID/task/TID/syscall`; `None`: the thread runs.
fn parse(line: &str) -> Option<Call> {
    let mut words = line.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let first = words.next().unwrap_or_default().trim_start_matches("0x");
    Some(Call {
        number,
        first: u64::from_str_radix(first, 16).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::sync::{Condvar, Mutex, mpsc};
    use std::thread;

    use super::*;

    #[test]
    fn a_line_names_the_call_or_says_that_it_runs() {
        assert_eq!(parse("running\n"), None);
        let call = parse("232 0x5 0x7ffc 0x3 0xffffffff 0x0 0x0 0x7ffc 0x7f8e\n");
        assert_eq!(
            call,
            Some(Call {
                number: 232,
                first: 5
            })
        );
        let none = parse("-1 0x7ffc 0x7f8e\n").expect("blocked");
        assert_eq!(none.number, -1);
        assert_eq!(parse(""), None);
    }

    /// Starts a thread, which ends when what it waits for comes or is gone; returns its id.
    fn start(wait: impl FnOnce() + Send + 'static) -> u32 {
        let (to, from) = mpsc::channel();
        thread::spawn(move || {
            to.send(nix::unistd::gettid())
                .expect("its id is waited for");
            wait();
        });
        u32::try_from(from.recv().expect("its id").as_raw()).expect("an id")
    }

    /// Waits until a thread is blocked, and checks that it waits for `wanted`.
    #[track_caller]
    fn until_it_waits_for(tid: u32, wanted: WaitObject) {
        let mut sampler = ThreadSampler::new(std::process::id());
        let started = std::time::Instant::now();
        loop {
            let look = sampler.sample().expect("own threads");
            assert!(look.number >= 2);
            let thread = look.threads.iter().find(|it| it.tid == tid);
            let thread = thread.expect("it waits until it is let go");
            if thread.doing == ThreadState::Waits(wanted) {
                assert!(thread.ran_ns.is_some_and(|ns| ns > 0));
                return;
            }
            let waited = started.elapsed().as_secs();
            assert!(waited < 20, "{:?}, not {wanted:?}", thread.doing);
            thread::yield_now();
        }
    }

    #[test]
    fn each_thread_waits_for_what_it_called_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        let client = TcpStream::connect(address).expect("a connection");
        let (mut server, _) = listener.accept().expect("a connection");
        let reads = start(move || drop(server.read(&mut [0])));
        until_it_waits_for(reads, WaitObject::Connection);
        let accepts = start(move || drop(listener.accept()));
        until_it_waits_for(accepts, WaitObject::Listener);
        let (mut near, far) = UnixStream::pair().expect("a pair");
        let unix = start(move || drop(near.read(&mut [0])));
        until_it_waits_for(unix, WaitObject::Unix);
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let knock = udp.local_addr().expect("its address");
        let datagram = start(move || drop(udp.recv(&mut [0])));
        until_it_waits_for(datagram, WaitObject::Datagram);
        let (mut pipe, end) = std::io::pipe().expect("a pipe");
        let piped = start(move || drop(pipe.read(&mut [0])));
        until_it_waits_for(piped, WaitObject::Pipe);
        static LOCK: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
        let futex = start(|| {
            let guard = LOCK.0.lock().expect("unlocked");
            drop(LOCK.1.wait_while(guard, |done| !*done));
        });
        until_it_waits_for(futex, WaitObject::Futex);
        drop((client, far, end));
        TcpStream::connect(address).expect("accepted");
        UdpSocket::bind("127.0.0.1:0")
            .and_then(|it| it.send_to(&[1], knock))
            .expect("sent");
        *LOCK.0.lock().expect("unlocked") = true;
        LOCK.1.notify_all();
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let pid = child.id();
        child.wait().expect("ended");
        assert!(ThreadSampler::new(pid).sample().is_err());
    }
}
