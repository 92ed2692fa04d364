//! Functions that each process and each thread ran, by samples of what threads ran.

use std::collections::HashMap;
use std::rc::Rc;

use table::manifest::Header;
use table::{Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::rows::top::Top;
use crate::waits::NameTable;

/// CPU time by function.
#[derive(Debug, Default)]
struct FunctionTimes {
    functions: Top,
    total_ns: u64,
}

/// CPU time of processes and threads by function.
#[derive(Debug)]
pub struct FunctionDigest {
    names: Rc<NameTable>,
    processes: HashMap<u32, FunctionTimes>,
    threads: HashMap<u32, FunctionTimes>,
    /// Names of functions, and their numbers.
    names_of_functions: Vec<String>,
    numbers: HashMap<String, u32>,
    /// The function of a stack.
    of_stacks: HashMap<(u32, u32), Option<u32>>,
}

impl RecordingDigest for FunctionDigest {
    fn new(_: &Header, names: &Rc<NameTable>) -> Self {
        Self {
            names: Rc::clone(names),
            processes: HashMap::new(),
            threads: HashMap::new(),
            names_of_functions: Vec::new(),
            numbers: HashMap::new(),
            of_stacks: HashMap::new(),
        }
    }
}

impl TableConsumer for FunctionDigest {
    fn is_reader_of(&self, table: TableId) -> bool {
        table == TableId::OnCpuSample
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        let Rows::OnCpuSample(rows) = rows else {
            return;
        };
        for row in 0..rows.time_ns.len() {
            let function =
                rows.stack[row].and_then(|stack| self.function_number(rows.pid[row], stack));
            let process = self.processes.entry(rows.pid[row]).or_default();
            process.add(function, rows.length_ns[row]);
            let thread = self.threads.entry(rows.tid[row]).or_default();
            thread.add(function, rows.length_ns[row]);
        }
    }
}

impl FunctionDigest {
    /// Returns the number of the function that a stack of a process ran.
    fn function_number(&mut self, pid: u32, stack: u32) -> Option<u32> {
        if let Some(known) = self.of_stacks.get(&(pid, stack)) {
            return *known;
        }
        let function = self.names.sampled_function(pid, Some(stack));
        let name = function.no_name.is_none().then_some(function.name);
        let number = name.map(|name| {
            let next = self.names_of_functions.len() as u32;
            *self.numbers.entry(name).or_insert_with_key(|name| {
                self.names_of_functions.push(name.clone());
                next
            })
        });
        self.of_stacks.insert((pid, stack), number);
        number
    }

    /// Returns the function that took most of a process's CPU time, and its share of that; `None`: no sample has a name.
    pub fn of_process(&self, pid: u32) -> Option<(&str, f64)> {
        self.largest_function(self.processes.get(&pid)?)
    }

    /// Returns the function that took most of a thread's CPU time, and its share of that; `None`:
    /// no sample has a name.
    pub fn of_thread(&self, tid: u32) -> Option<(&str, f64)> {
        self.largest_function(self.threads.get(&tid)?)
    }

    /// Returns the CPU time of a process by samples, ns.
    pub fn sampled_ns(&self, pid: u32) -> u64 {
        self.processes.get(&pid).map_or(0, |it| it.total_ns)
    }

    /// Returns the function with most time, and its share; None without a name.
    fn largest_function(&self, times: &FunctionTimes) -> Option<(&str, f64)> {
        let worst = *times.functions.worst(1).first()?;
        let name = self.names_of_functions.get(worst.number as usize)?;
        Some((
            name,
            crate::units::ratio_of(worst.blocked_ns, times.total_ns),
        ))
    }
}

impl FunctionTimes {
    /// Adds CPU time, in nanoseconds, to a function; None is time without a known function.
    fn add(&mut self, function: Option<u32>, ns: u64) {
        self.total_ns += ns;
        if let Some(function) = function {
            self.functions.add(function, ns);
        }
    }
}
