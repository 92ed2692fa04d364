//! Names for people: rows of `connections`, `listeners`, `udp_sockets`, `unix_sockets` and `processes` in, a name for
//! every object, thread and waker out; of waits also rows of `stacks` and `symbols`. Every answer takes its names from
//! here, and here alone it is written from which tables.

use std::collections::HashMap;
use std::rc::Rc;

use table::manifest::Header;
use table::tables::{
    Connection, Connections, Listeners, Processes, StackFrames, Symbols, Tasks, UdpFlow, UdpFlows,
    UdpSocket, UdpSockets, UnixSocket, UnixSockets, WaitedFile, WaitedFiles, Waits,
};
use table::{Columns, Rows, TableConsumer, TableId, WaitObject, Waker};

use super::keys::{ObjectKey, ThreadKey, WakerKey};
use super::report::{ObjectIdentity, WaitStack};
use super::sampled::SampledFunction;
use super::stacks::{KernelPurpose, StackPurpose, Stacks};
use super::tasks::{SpanKey, SpanTable};
use crate::answer::Process;
use crate::rows::udp_flows::{self, UdpFlowTable};
use crate::rows::unix_sockets::{self, UnixSocketTable};
use crate::rows::{listeners, processes};

/// Addresses at which a socket listens that has all of them.
const WILDCARDS: [&str; 4] = ["0.0.0.0", "[::]", "::", "*"];

/// Functions in the name of a stack.
const TITLE_FRAMES: usize = 3;

/// Names of objects, threads and wakers.
#[derive(Debug, Default)]
pub struct NameTable {
    rows: Connections,
    sockets: HashMap<u64, Connection>,
    listeners: HashMap<u64, Connection>,
    /// As last written.
    udp_sockets: HashMap<u64, UdpSocket>,
    unix_sockets: UnixSocketTable,
    udp_flows: UdpFlowTable,
    processes: processes::Processes,
    /// By device and inode number.
    files: HashMap<(u32, u64), WaitedFile>,
    /// Architecture of the host; `None`: not known.
    architecture: Option<String>,
    has_stacks: bool,
    pub(super) stacks: Stacks,
    has_spans: bool,
    pub(super) spans: SpanTable,
}

impl TableConsumer for NameTable {
    fn is_reader_of(&self, table: TableId) -> bool {
        match table {
            TableId::Connection | TableId::Listener | TableId::Process => true,
            TableId::WaitedFile => true,
            TableId::UdpSocket | TableId::UdpFlow | TableId::UnixSocket => true,
            TableId::StackFrame | TableId::Symbol => self.has_stacks,
            TableId::Task => self.has_spans,
            _ => false,
        }
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::Connection(rows) => self.add_connections(rows),
            Rows::Listener(rows) => self.add_listeners(rows),
            Rows::UdpSocket(rows) => self.add_udp_sockets(rows),
            Rows::UnixSocket(rows) => self.add_unix_sockets(rows),
            Rows::UdpFlow(rows) => self.add_udp_flows(rows),
            Rows::Process(rows) => self.add_processes(rows),
            Rows::WaitedFile(rows) => self.add_files(rows),
            Rows::StackFrame(rows) => self.add_frames(rows),
            Rows::Symbol(rows) => self.add_symbols(rows),
            Rows::Task(rows) => self.add_tasks(rows),
            _ => {}
        }
    }
}

impl NameTable {
    /// Makes an empty table of names; the header's architecture names system calls.
    pub fn from_header(header: &Header) -> Self {
        Self {
            architecture: header.architecture.clone(),
            ..Self::default()
        }
    }

    /// Names stacks, too, which only waits have.
    #[must_use]
    pub fn with_stacks(mut self) -> Self {
        self.has_stacks = true;
        self
    }

    /// Names spans that programs report, too, by which only waits are grouped.
    #[must_use]
    pub fn with_spans(mut self) -> Self {
        self.has_spans = true;
        self
    }

    /// Adds rows of table `tasks`.
    pub fn add_tasks(&mut self, rows: &Tasks) {
        self.spans.add(rows);
    }

    /// Names a group of spans.
    pub(super) fn span(&self, group: u32) -> ObjectIdentity {
        let key = self.spans.key(group);
        ObjectIdentity {
            name: key.map_or_else(|| "outside of all tasks".to_owned(), SpanKey::title),
            process: key.map(|key| self.process(key.pid)),
            ..ObjectIdentity::default()
        }
    }

    /// Adds rows of table `files`.
    pub fn add_files(&mut self, rows: &WaitedFiles) {
        for row in 0..rows.len() {
            let file = rows.row(row);
            self.files.insert((file.device, file.inode), file);
        }
    }

    /// Returns the name of a file, by its device and inode number.
    pub fn file(&self, device: u32, inode: u64) -> Option<&WaitedFile> {
        self.files.get(&(device, inode))
    }

    /// Adds rows of table `connections`.
    pub fn add_connections(&mut self, rows: &Connections) {
        self.rows.append(rows.clone());
    }

    /// Adds rows of table `listeners`.
    pub fn add_listeners(&mut self, rows: &Listeners) {
        for index in 0..rows.len() {
            let row = rows.row(index);
            self.listeners.insert(row.conn, listeners::identity(&row));
        }
    }

    /// Adds rows of table `udp_sockets`.
    pub fn add_udp_sockets(&mut self, rows: &UdpSockets) {
        for index in 0..rows.len() {
            let row = rows.row(index);
            let known = self.udp_sockets.entry(row.conn);
            let known = known.or_insert_with(|| row.clone());
            if known.time_ns <= row.time_ns {
                *known = row;
            }
        }
    }

    /// Adds rows of table `unix_sockets`.
    pub fn add_unix_sockets(&mut self, rows: &UnixSockets) {
        (0..rows.len()).for_each(|index| self.unix_sockets.add(rows.row(index)));
    }

    /// Adds rows of table `udp_flows`.
    pub fn add_udp_flows(&mut self, rows: &UdpFlows) {
        (0..rows.len()).for_each(|index| self.udp_flows.add(rows.row(index)));
    }

    /// Returns the UDP flows.
    pub(crate) fn udp_flows(&self) -> &UdpFlowTable {
        &self.udp_flows
    }

    /// Returns the UNIX sockets.
    pub(crate) fn unix_sockets(&self) -> &UnixSocketTable {
        &self.unix_sockets
    }

    /// Returns the datagrams that a UDP socket had no room for; `None`: the socket is unknown.
    pub(crate) fn count_dropped(&self, conn: u64) -> Option<u64> {
        self.udp_sockets.get(&conn).map(|it| it.dropped)
    }

    /// Adds rows of table `processes`.
    pub fn add_processes(&mut self, rows: &Processes) {
        (0..rows.len()).for_each(|index| self.processes.add(rows.row(index)));
    }

    /// Adds rows of table `stacks`.
    pub fn add_frames(&mut self, rows: &StackFrames) {
        self.stacks.add_frames(rows);
    }

    /// Adds rows of table `symbols`.
    pub fn add_symbols(&mut self, rows: &Symbols) {
        self.stacks.add_symbols(rows);
    }

    /// Joins the rows of each connection; call it after the last row.
    pub fn complete(mut self) -> Rc<Self> {
        self.finish();
        Rc::new(self)
    }

    /// Joins the rows of each connection; names are complete from here on.
    pub(crate) fn finish(&mut self) {
        self.stacks.finish();
        self.spans.finish();
        let folded = table::fold_connections(std::mem::take(&mut self.rows));
        for index in 0..folded.len() {
            self.sockets.insert(folded.conn[index], folded.row(index));
        }
    }

    /// Names a connection, listener or UDP socket by its cookie.
    pub fn connection(&self, conn: u64) -> ObjectIdentity {
        self.object(ObjectKey::conn(conn))
    }

    /// Returns the object of a row of table `waits`.
    pub fn object_of(&self, rows: &Waits, row: usize) -> ObjectIdentity {
        self.object(ObjectKey::from_wait(rows, row))
    }

    /// Returns the command name of a process; `None` if unknown.
    pub fn comm(&self, pid: u32) -> Option<&str> {
        self.processes.comm(pid, u64::MAX)
    }

    /// Returns when processes began with ids that others had before, the latest first.
    pub(crate) fn reused_pids(&self) -> Vec<(u64, u32)> {
        self.processes.reused_ids()
    }

    /// Returns every TCP connection, in no order.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.sockets.values()
    }

    /// Returns whether the text `wanted` means this connection.
    pub(crate) fn is_connection(&self, wanted: &str, conn: u64) -> bool {
        self.means(wanted, ObjectKey::conn(conn))
    }

    /// Returns the listening sockets at which connections to this address arrive, if several have exactly the same local
    /// address (SO_REUSEPORT).
    pub(crate) fn listeners_at(&self, address: &str) -> Vec<&Connection> {
        let port = address.rsplit_once(':').map(|(_, port)| port);
        let is_at = |local: &str| {
            let any = local
                .rsplit_once(':')
                .filter(|(host, _)| WILDCARDS.contains(host));
            local == address || any.is_some_and(|(_, own)| Some(own) == port)
        };
        let all = || self.listeners.values().filter(|it| is_at(&it.local));
        let mut shared: HashMap<(u32, &str), Vec<&Connection>> = HashMap::new();
        for listener in all() {
            let place = (listener.netns, listener.local.as_str());
            shared.entry(place).or_default().push(listener);
        }
        let most = shared.into_values().max_by_key(Vec::len);
        most.filter(|it| it.len() > 1).unwrap_or_default()
    }

    /// Returns the local address of every listening socket.
    pub(crate) fn listening(&self) -> impl Iterator<Item = &str> {
        self.listeners.values().map(|it| it.local.as_str())
    }

    /// Returns the purpose of a wait by its stack; needs names with stacks.
    pub(crate) fn purpose(&self, stack: u32) -> StackPurpose {
        let stack = self.stacks.number(Some(stack));
        let stack = stack.and_then(|stack| self.stacks.stack(stack));
        stack.map_or(StackPurpose::Unknown, WaitStack::purpose)
    }

    /// Returns the purpose of a wait inside the kernel by its stack; needs names with stacks.
    pub(crate) fn kernel_purpose(&self, stack: u32) -> KernelPurpose {
        let stack = self.stacks.number(Some(stack));
        let stack = stack.and_then(|stack| self.stacks.stack(stack));
        stack.map_or(KernelPurpose::Unknown, WaitStack::kernel_purpose)
    }

    /// Returns the name of a stack; of names with stacks.
    pub(crate) fn stack_title(&self, stack: u32) -> Option<String> {
        self.distinct_stack_title(self.distinct_stack(stack)?)
    }

    /// Returns the number that all stacks with the same functions have; of names with stacks.
    pub(crate) fn distinct_stack(&self, stack: u32) -> Option<u32> {
        self.stacks.number(Some(stack))
    }

    /// Returns the title of a stack by its distinct number.
    pub(crate) fn distinct_stack_title(&self, number: u32) -> Option<String> {
        let stack = self.stacks.stack(number)?;
        Some(stack.title(TITLE_FRAMES))
    }

    /// Returns whether a stack with such a number is within a function with one of these parts in its name. A name of the stack
    /// may leave that function out.
    pub(crate) fn is_distinct_stack_in(&self, number: u32, functions: &[&str]) -> bool {
        let stack = self.stacks.stack(number);
        stack.is_some_and(|stack| stack.is_in(functions))
    }

    /// Returns the innermost function of such a stack with one of these parts in its name.
    pub(crate) fn find_function(&self, number: u32, parts: &[&str]) -> Option<String> {
        self.stacks.stack(number)?.find_function(parts)
    }

    /// Returns the row of a TCP connection.
    pub(crate) fn row(&self, conn: u64) -> Option<&Connection> {
        self.sockets.get(&conn)
    }

    /// Returns the function of a sample with this stack; of names with stacks.
    pub(crate) fn sampled_function(&self, pid: u32, stack: Option<u32>) -> SampledFunction {
        let known = self.stacks.number(stack);
        let known = known.and_then(|number| self.stacks.stack(number));
        SampledFunction::new(known, self.comm(pid))
    }

    /// Returns `NAMESPACE/NAME` of the pod of a process.
    pub(super) fn pod(&self, pid: u32) -> Option<String> {
        let process = self.processes.latest(pid)?;
        let (namespace, pod) = (process.pod_namespace.as_ref()?, process.pod.as_ref()?);
        Some(format!("{namespace}/{pod}"))
    }

    /// Returns `KIND NAMESPACE/NAME` of the workload of that pod.
    pub(super) fn workload(&self, pid: u32) -> Option<String> {
        let process = self.processes.latest(pid)?;
        let (namespace, name) = (process.pod_namespace.as_ref()?, process.workload.as_ref()?);
        Some(format!("{} {namespace}/{name}", process.workload_kind?))
    }

    /// Returns name and pid of a process.
    pub(crate) fn process(&self, pid: u32) -> Process {
        let comm = self.comm(pid);
        Process {
            pid: Some(pid),
            comm: comm.map(str::to_owned),
        }
    }

    /// Returns the identity of an object that threads wait for.
    pub(super) fn object(&self, key: ObjectKey) -> ObjectIdentity {
        if key.is_conn {
            return self.socket(key.id);
        }
        let (id, fd) = (key.id, key.fd);
        if let Some(socket) = self
            .unix_sockets
            .by_inode(id)
            .filter(|_| key.kind == WaitObject::Unix)
        {
            return self.unix_socket(socket);
        }
        let name = match key.kind {
            WaitObject::Connection => format!("TCP socket {id}"),
            WaitObject::Listener => format!("listening socket {id}"),
            WaitObject::Datagram => format!("UDP or raw socket {id}"),
            WaitObject::Unix => format!("UNIX socket {id}"),
            WaitObject::Socket => format!("socket {id}"),
            WaitObject::Pipe => format!("pipe {id}"),
            WaitObject::File => format!("file {id}"),
            WaitObject::Event => format!("event file {id}"),
            WaitObject::Futex => format!("futex {id:#x}"),
            WaitObject::Epoll => format!("epoll set {fd}"),
            WaitObject::IoUring if fd < 0 => "thread of io_uring".to_owned(),
            WaitObject::IoUring => format!("io_uring {fd}"),
            WaitObject::Poll => "poll".to_owned(),
            WaitObject::Select => "select".to_owned(),
            WaitObject::Sleep => "sleep".to_owned(),
            WaitObject::Child => "end of a child".to_owned(),
            WaitObject::Signal => "signal".to_owned(),
            WaitObject::PageFault => "page fault".to_owned(),
            WaitObject::Other if fd < 0 => "unknown".to_owned(),
            WaitObject::Other => match self.system_call(fd) {
                Some(name) => format!("system call {name}"),
                None => format!("system call {fd}"),
            },
        };
        let is_set = matches!(key.kind, WaitObject::Epoll | WaitObject::IoUring);
        ObjectIdentity {
            name,
            kind: Some(key.kind),
            object: (id != 0).then_some(id),
            fd: (is_set && fd >= 0).then_some(fd),
            process: (key.pid != 0).then(|| self.process(key.pid)),
            ..ObjectIdentity::default()
        }
    }

    /// Returns the name of a system call; `None`: the architecture is not known, or has no such number.
    fn system_call(&self, number: i32) -> Option<&'static str> {
        let number = usize::try_from(number).ok()?;
        match self.architecture.as_deref()? {
            "x86_64" => Some(syscalls::x86_64::Sysno::new(number)?.name()),
            "aarch64" => Some(syscalls::aarch64::Sysno::new(number)?.name()),
            _ => None,
        }
    }

    /// Returns the name of a UDP socket: its addresses, and its process.
    fn udp_socket(&self, socket: &UdpSocket) -> ObjectIdentity {
        let local = &socket.local;
        ObjectIdentity {
            name: match &socket.remote {
                Some(remote) => format!("UDP {local} → {remote}"),
                None => format!("UDP {local}"),
            },
            kind: Some(WaitObject::Datagram),
            conn: Some(socket.conn),
            process: socket.pid.map(|pid| self.process(pid)),
            ..ObjectIdentity::default()
        }
    }

    /// Returns the name of a UDP flow: its addresses, and its process.
    fn udp_flow(&self, flow: &UdpFlow) -> ObjectIdentity {
        ObjectIdentity {
            name: udp_flows::name(flow),
            kind: Some(WaitObject::Datagram),
            conn: Some(flow.conn),
            process: flow.pid.map(|pid| self.process(pid)),
            ..ObjectIdentity::default()
        }
    }

    /// Returns the name of a Unix socket: its path or inode, and its process.
    fn unix_socket(&self, socket: &UnixSocket) -> ObjectIdentity {
        ObjectIdentity {
            name: unix_sockets::name(socket),
            kind: Some(WaitObject::Unix),
            conn: Some(socket.conn),
            object: socket.inode,
            process: socket.pid.map(|pid| self.process(pid)),
            ..ObjectIdentity::default()
        }
    }

    /// Names a connection, listener, UDP or UNIX socket by its cookie.
    fn socket(&self, conn: u64) -> ObjectIdentity {
        if let Some(socket) = self.udp_sockets.get(&conn) {
            return self.udp_socket(socket);
        }
        if let Some(socket) = self.unix_sockets.get(conn) {
            return self.unix_socket(socket);
        }
        if let Some(flow) = self.udp_flows.get(conn) {
            return self.udp_flow(flow);
        }
        let listener = self.listeners.get(&conn);
        let known = listener.or_else(|| self.sockets.get(&conn));
        let name = match known {
            None => format!("connection {conn}"),
            Some(known) if listener.is_some() => format!("listener {}", known.local),
            Some(known) => format!("{} → {}", known.local, known.remote),
        };
        let kind = match listener {
            Some(_) => WaitObject::Listener,
            None => WaitObject::Connection,
        };
        ObjectIdentity {
            name,
            kind: Some(kind),
            conn: Some(conn),
            process: known
                .and_then(|known| known.pid)
                .map(|pid| self.process(pid)),
            ..ObjectIdentity::default()
        }
    }

    /// Names a thread; the first of a process has the process's name.
    pub(super) fn thread(&self, key: ThreadKey) -> ObjectIdentity {
        ObjectIdentity {
            name: format!("thread {}", key.tid),
            process: Some(self.process(key.pid)),
            tid: Some(key.tid),
            ..ObjectIdentity::default()
        }
    }

    /// Returns the identity of a stack.
    pub(super) fn stack(&self, number: u32) -> ObjectIdentity {
        let stack = self.stacks.stack(number);
        ObjectIdentity {
            name: stack.map_or("stack not known".to_owned(), |it| it.title(TITLE_FRAMES)),
            stack: stack.cloned(),
            ..ObjectIdentity::default()
        }
    }

    /// Returns the identity of a waker.
    pub(super) fn waker(&self, key: WakerKey) -> ObjectIdentity {
        let (name, waker) = match key {
            WakerKey::Thread(thread) => {
                return ObjectIdentity {
                    waker: Some(Waker::Thread),
                    ..self.thread(thread)
                };
            }
            WakerKey::Interrupt => ("interrupts", Waker::Interrupt),
            WakerKey::Unseen => ("not seen", Waker::Unseen),
        };
        ObjectIdentity {
            name: name.to_owned(),
            waker: Some(waker),
            ..ObjectIdentity::default()
        }
    }

    /// Returns whether the text `wanted` means this object.
    pub(super) fn means(&self, wanted: &str, key: ObjectKey) -> bool {
        let wanted = wanted.trim().replace("->", "→");
        let identity = self.object(key);
        if wanted == identity.name || wanted == identity.title() {
            return true;
        }
        let known = identity.conn.and_then(|conn| {
            self.listeners
                .get(&conn)
                .or_else(|| self.sockets.get(&conn))
        });
        let has_address = known.is_some_and(|it| it.local == wanted || it.remote == wanted);
        let unix = identity.conn.and_then(|conn| self.unix_sockets.get(conn));
        let has_path = unix.is_some_and(|it| {
            it.path.as_deref() == Some(&wanted) || unix_sockets::address(it) == wanted
        });
        has_address || has_path || identity.conn.is_some_and(|conn| conn.to_string() == wanted)
    }
}
