//! Functions that each process ran, by samples of what its threads ran.

use std::collections::HashMap;
use std::rc::Rc;

use table::manifest::Header;
use table::{Consumer, Rows, TableId};

use super::RecordingDigest;
use crate::rows::top::Top;
use crate::waits::NameTable;

/// CPU time of a process by function.
#[derive(Debug, Default)]
struct ProcessFunctions {
    stacks: Top,
    total_ns: u64,
}

/// CPU time of processes by function.
#[derive(Debug)]
pub struct FunctionDigest {
    names: Rc<NameTable>,
    processes: HashMap<u32, ProcessFunctions>,
    /// Names of functions, and their numbers.
    functions: Vec<String>,
    numbers: HashMap<String, u32>,
    /// The function of a stack.
    of_stacks: HashMap<u32, Option<u32>>,
}

impl RecordingDigest for FunctionDigest {
    fn new(_: &Header, names: &Rc<NameTable>) -> Self {
        Self {
            names: Rc::clone(names),
            processes: HashMap::new(),
            functions: Vec::new(),
            numbers: HashMap::new(),
            of_stacks: HashMap::new(),
        }
    }
}

impl Consumer for FunctionDigest {
    fn wants(&self, table: TableId) -> bool {
        table == TableId::OnCpuSample
    }

    fn take(&mut self, rows: Rows<'_>) {
        let Rows::OnCpuSample(rows) = rows else {
            return;
        };
        for row in 0..rows.time_ns.len() {
            let function = rows.stack[row].and_then(|stack| self.function(stack));
            let process = self.processes.entry(rows.pid[row]).or_default();
            process.total_ns += rows.length_ns[row];
            if let Some(function) = function {
                process.stacks.add(function, rows.length_ns[row]);
            }
        }
    }
}

impl FunctionDigest {
    /// Returns the number of the function that a stack ends in.
    fn function(&mut self, stack: u32) -> Option<u32> {
        if let Some(known) = self.of_stacks.get(&stack) {
            return *known;
        }
        let name = self.names.function(stack);
        let number = name.map(|name| {
            let next = self.functions.len() as u32;
            *self.numbers.entry(name).or_insert_with_key(|name| {
                self.functions.push(name.clone());
                next
            })
        });
        self.of_stacks.insert(stack, number);
        number
    }

    /// Returns the function that took most of a process's CPU time, and its share of that; `None`: no sample has a name.
    pub fn most(&self, pid: u32) -> Option<(&str, f64)> {
        let process = self.processes.get(&pid)?;
        let worst = process.stacks.worst(1);
        let worst = worst.first()?;
        let name = self.functions.get(worst.number as usize)?;
        let share = crate::units::part(worst.blocked_ns, process.total_ns);
        Some((name, share))
    }
}
