//! Stacks as the kernel handed them over → rows of table `stacks`; at the end, of `symbols`.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::rc::Rc;

use table::tables::{StackFrame, StackFrames, Symbols};
use table::{Caller, Columns};

use super::code_events::CodeEvents;
use super::functions;
use super::generated::GeneratedCode;
use super::mappings::{self, Mapping};
use super::objects::{Object, Objects, OpenBy};
use super::symbols::{self, CodePlace, KERNEL, Kernel};
use super::unwind::{ProgramUnwinder, Unwound};
use super::{PYTHON_FRAMES, STACK_FRAMES};
use crate::interface::{ProgramKey, PythonCode, Registers, SampledAddress, SeenStack};
use crate::python::{self, Interpreter, PYTHON, PythonNames, PythonProcesses};

/// Programs with mappings that are kept; the oldest is forgotten.
const MOST_PROGRAMS: usize = 256;

/// Addresses for which a program's mappings are read again in vain: each reading takes up to milliseconds. After them its stacks
/// end at callers that are no known code.
const NO_CODE_MOST: usize = 64;

/// Frames of the interpreter that are kept below its functions, where nothing says which of them runs these.
const INTERPRETER_FRAMES: usize = 3;

/// The first number of a stack that is put together here: of callers and the function that a sample interrupted. The
/// kernel counts from 1.
const FIRST_SAMPLED: u32 = 1 << 31;

/// All stacks of a recording.
#[derive(Default)]
pub struct Stacks {
    objects: Objects,
    programs: HashMap<ProgramKey, MappedFiles>,
    /// In the order in which they were found.
    recent: VecDeque<ProgramKey>,
    kernel: Option<Kernel>,
    places: BTreeSet<CodePlace>,
    sampled: SampledStacks,
    generated: GeneratedCode,
    python: PythonNames,
    /// Where the kernel side learns of interpreters.
    python_processes: Option<PythonProcesses>,
    /// Mappings of programs that have ended.
    code_events: CodeEvents,
}

/// Stacks of samples: each is known by its callers and its function.
#[derive(Default)]
struct SampledStacks {
    callers: HashMap<u32, Callers>,
    /// The first number of callers: program, return addresses, code objects of Python.
    first_numbers: HashMap<(ProgramKey, Vec<u64>, Vec<u64>), u32>,
    /// By callers and first address of the function.
    numbers: HashMap<(u32, u64), u32>,
    /// Addresses with their numbers, for which the callers are still to come.
    early: HashMap<u32, Vec<(u64, u32)>>,
}

/// Callers of functions that samples interrupted.
struct Callers {
    /// The kernel has several numbers for equal ones: this is the first that came.
    first: u32,
    time_ns: u64,
    program: ProgramKey,
    /// Return addresses, innermost first, without that of the function.
    addresses: Vec<u64>,
    /// Code objects of Python's functions.
    codes: Vec<u64>,
    caller: Caller,
}

/// Holds the columns that rows of one stack share.
#[derive(Clone, Copy)]
struct StackIdentity {
    time_ns: u64,
    number: u32,
    pid: Option<u32>,
}

/// Files that are mapped in a program.
#[derive(Default)]
struct MappedFiles {
    mappings: Vec<Mapping>,
    unwinder: ProgramUnwinder,
    interpreter: Option<Interpreter>,
    /// Addresses that were no code when the mappings were read again; [`NO_CODE_MOST`] at most.
    no_code: HashSet<u64>,
}

impl Stacks {
    /// Reads functions of Python from now on, with this map.
    pub fn read_python(&mut self, processes: PythonProcesses) {
        self.python_processes = Some(processes);
    }

    /// Has the kernel record what programs map as code, so that stacks of those that end soon have names. Without it, they
    /// have none.
    ///
    /// # Errors
    /// Why the kernel does not record it.
    pub fn record_code(&mut self) -> Result<(), String> {
        self.code_events = CodeEvents::open()?;
        Ok(())
    }

    /// Reads what programs mapped until now; call it before stacks are added that the kernel handed over until then.
    pub fn read_code(&mut self) {
        self.code_events.read();
    }

    /// Adds the name of a function of Python.
    pub fn put_code(&mut self, code: &PythonCode) {
        self.python.add(code);
    }

    /// Adds the frames of a stack to `rows`.
    pub fn put(&mut self, stack: &SeenStack, rows: &mut StackFrames) {
        match stack.program {
            None => self.put_kernel(stack, rows),
            Some(program) => self.put_program(stack, program, rows),
        }
    }

    /// Returns whether the mappings of a stack's process are known, so that the process may end.
    pub fn knows(&self, stack: &SeenStack) -> bool {
        let program = stack.program;
        program.is_none_or(|program| self.programs.contains_key(&program))
    }

    /// Adds the callers of functions that samples interrupt. The kernel's own functions are there already.
    pub fn put_callers(&mut self, stack: &SeenStack, rows: &mut StackFrames) {
        let Some(program) = stack.program else {
            return self.put_kernel(stack, rows);
        };
        let Unwound {
            addresses, caller, ..
        } = self.unwind_stack(stack, program);
        let addresses: Vec<u64> = addresses.into_iter().skip(1).collect();
        let codes = stack.codes.clone();
        let equal = (program, addresses.clone(), codes.clone());
        let first = self.sampled.first_numbers.entry(equal);
        let callers = Callers {
            first: *first.or_insert(stack.number),
            time_ns: stack.time_ns,
            program,
            addresses,
            codes,
            caller,
        };
        self.sampled.callers.insert(stack.number, callers);
        let early = self.sampled.early.remove(&stack.number);
        for (address, number) in early.into_iter().flatten() {
            self.put_sampled(stack.number, address, number, rows);
        }
    }

    /// Returns the number of the stack of a sample, and appends its frames if it is new: the innermost is the function, at
    /// its first address.
    pub fn add_sample(&mut self, sample: SampledAddress, rows: &mut StackFrames) -> Option<u32> {
        let SampledAddress { callers, address } = sample;
        if callers == 0 {
            return None;
        }
        let known = self.sampled.callers.get(&callers);
        let program = known.map(|known| known.program);
        let callers = known.map_or(callers, |known| known.first);
        let time_ns = known.map_or(0, |known| known.time_ns);
        let place = match program {
            Some(program) => self.function_start(program, (address, time_ns)),
            None => address,
        };
        let next = FIRST_SAMPLED + self.sampled.numbers.len() as u32;
        if let Some(number) = self.sampled.numbers.get(&(callers, place)) {
            return Some(*number);
        }
        self.sampled.numbers.insert((callers, place), next);
        match program {
            Some(_) => self.put_sampled(callers, place, next, rows),
            None => {
                let early = self.sampled.early.entry(callers).or_default();
                early.push((place, next));
            }
        }
        Some(next)
    }

    /// Adds the frames of a sample: its own place above the callers that came before.
    fn put_sampled(&mut self, callers: u32, place: u64, number: u32, rows: &mut StackFrames) {
        let Some(known) = self.sampled.callers.get(&callers) else {
            return;
        };
        let (program, caller) = (known.program, known.caller);
        let identity = StackIdentity {
            time_ns: known.time_ns,
            number,
            pid: Some(program.pid),
        };
        let addresses: Vec<u64> = [place].iter().chain(&known.addresses).copied().collect();
        let codes = known.codes.clone();
        self.push_program(identity, program, (&addresses, &codes), caller, rows);
    }

    /// Looks up the names of all found places; call it once, when the recording ends.
    pub fn symbols(self) -> Symbols {
        let mut rows = symbols::look_up(self.places, self.kernel.as_ref());
        self.generated.symbols(&mut rows);
        self.python.symbols(&mut rows);
        rows
    }

    /// Adds the frames of a stack of the kernel.
    fn put_kernel(&mut self, stack: &SeenStack, rows: &mut StackFrames) {
        let identity = StackIdentity::from_stack(stack);
        let kernel = self.kernel.get_or_insert_with(Kernel::read);
        let offsets: Vec<_> = call_addresses(&stack.addresses)
            .map(|at| kernel.offset(at))
            .collect();
        let outermost = match offsets.len() {
            STACK_FRAMES => Caller::LeftOut,
            _ => Caller::None,
        };
        for (depth, offset) in offsets.iter().enumerate() {
            let place = offset.map(|offset| CodePlace {
                object: None,
                offset,
            });
            let is_last = depth + 1 == offsets.len();
            let caller = if is_last { outermost } else { Caller::Known };
            self.push(identity, depth, place, caller, rows);
        }
    }

    /// Adds the frames of a program's stack, after unwinding.
    fn put_program(&mut self, stack: &SeenStack, program: ProgramKey, rows: &mut StackFrames) {
        let Unwound {
            addresses, caller, ..
        } = self.unwind_stack(stack, program);
        let identity = StackIdentity::from_stack(stack);
        self.push_program(identity, program, (&addresses, &stack.codes), caller, rows);
    }

    /// Adds the frames of these addresses; Python code has its own frames.
    fn push_program(
        &mut self,
        identity: StackIdentity,
        program: ProgramKey,
        (addresses, codes): (&[u64], &[u64]),
        outermost: Caller,
        rows: &mut StackFrames,
    ) {
        if !codes.is_empty() {
            return self.push_python(identity, program, (addresses, codes), rows);
        }
        let inner = addresses.len() - 1;
        let places: Vec<_> = call_addresses(addresses)
            .map(|at| self.code_place(program, at))
            .collect();
        for (depth, place) in places.into_iter().enumerate() {
            let caller = if depth == inner {
                outermost
            } else {
                Caller::Known
            };
            self.push(identity, depth, place, caller, rows);
        }
    }

    /// Adds the frames of libraries above the innermost Python function, and the Python functions.
    fn push_python(
        &mut self,
        identity: StackIdentity,
        program: ProgramKey,
        (addresses, codes): (&[u64], &[u64]),
        rows: &mut StackFrames,
    ) {
        let native = self.before_python(program, addresses);
        let mut places: Vec<_> = call_addresses(addresses)
            .take(native)
            .map(|at| self.code_place(program, at))
            .collect();
        let object = Rc::new(Object::from_name(PYTHON));
        places.extend(codes.iter().map(|code| {
            Some(CodePlace {
                object: Some(Rc::clone(&object)),
                offset: self.python.number(program.pid, *code),
            })
        }));
        let inner = places.len() - 1;
        for (depth, place) in places.into_iter().enumerate() {
            let caller = match depth == inner {
                false => Caller::Known,
                true if codes.len() < PYTHON_FRAMES => Caller::None,
                true => Caller::LeftOut,
            };
            self.push(identity, depth, place, caller, rows);
        }
    }

    /// Returns the number of frames before the first run of the interpreter.
    fn before_python(&self, program: ProgramKey, addresses: &[u64]) -> usize {
        let mapped = self.programs.get(&program);
        let Some(interpreter) = mapped.and_then(|it| it.interpreter.as_ref()) else {
            return addresses.len();
        };
        let mut own = 0;
        let is_run = |at: &u64| {
            let evaluate = interpreter.evaluate.as_ref();
            own += usize::from(interpreter.code.iter().any(|code| code.contains(at)));
            evaluate.is_some_and(|evaluate| evaluate.contains(at)) || own > INTERPRETER_FRAMES
        };
        addresses.iter().position(is_run).unwrap_or(addresses.len())
    }

    /// Returns where the function of an address begins; the address itself where nothing says that.
    fn function_start(&mut self, program: ProgramKey, (address, time_ns): (u64, u64)) -> u64 {
        self.map(program, (address, time_ns));
        let mapped = self.programs.get(&program);
        let mapping = mapped.and_then(|it| mappings::find(&it.mappings, address));
        let Some(mapping) = mapping else {
            return address;
        };
        if mapping.is_generated() {
            let start = self.generated.start(program, address);
            return start.unwrap_or(address);
        }
        let object = self.objects.open(OpenBy::Mapper(program.pid), mapping);
        let tables = object.tables.as_ref();
        let start = tables.and_then(|tables| {
            let base = mapping
                .addresses
                .start
                .wrapping_sub(tables.linked_address(mapping)?);
            let start = functions::start(tables, address.wrapping_sub(base))?;
            Some(start.wrapping_add(base))
        });
        start
            .filter(|start| mapping.addresses.contains(start))
            .unwrap_or(address)
    }

    /// Unwinds a copied stack. A program may have loaded a library since its mappings were read: then it reads them again.
    fn unwind_stack(&mut self, stack: &SeenStack, program: ProgramKey) -> Unwound {
        self.map(program, (stack.registers.ip, stack.time_ns));
        let mut unwound = self.unwind_known(stack, program);
        while let Some(beyond) = unwound.beyond
            && self.has_new_code(program, (beyond, stack.time_ns))
        {
            self.map(program, (beyond, stack.time_ns));
            unwound = self.unwind_known(stack, program);
        }
        unwound
    }

    /// Returns whether an address is code of a program that its known mappings do not have.
    fn has_new_code(&mut self, program: ProgramKey, (address, time_ns): (u64, u64)) -> bool {
        let Some(mapped) = self.programs.get(&program) else {
            return false;
        };
        let may_be = mapped.no_code.len() < NO_CODE_MOST
            && !mapped.no_code.contains(&address)
            && mappings::find(&mapped.mappings, address).is_none();
        let mut read = || self.read_mappings(program, (address, time_ns)).0;
        let is_code = may_be && mappings::find(&read(), address).is_some();
        if may_be
            && !is_code
            && let Some(mapped) = self.programs.get_mut(&program)
        {
            mapped.no_code.insert(address);
        }
        is_code
    }

    /// Unwinds a copied stack by the mappings that are known; without any it returns the kernel's addresses.
    fn unwind_known(&mut self, stack: &SeenStack, program: ProgramKey) -> Unwound {
        let Some(mapped) = self.programs.get_mut(&program) else {
            let addresses = stack.addresses.clone();
            return Unwound {
                addresses,
                caller: Caller::Unknown,
                beyond: None,
            };
        };
        let MappedFiles {
            mappings, unwinder, ..
        } = mapped;
        unwinder.unwind(stack, |at| mappings::find(mappings, at).is_some())
    }

    /// Reads the mappings of a program, and how their files are opened. If it has ended, or has become another program:
    /// what it had mapped at a time.
    fn read_mappings(
        &mut self,
        program: ProgramKey,
        (address, time_ns): (u64, u64),
    ) -> (Vec<Mapping>, OpenBy) {
        let pid = program.pid;
        let current = match self.code_events.is_replaced(pid, time_ns) {
            true => Vec::new(),
            false => mappings::read(pid),
        };
        if mappings::find(&current, address).is_some() {
            return (current, OpenBy::Mapper(pid));
        }
        let code = self.code_events.find(pid, time_ns);
        let older = code.older.filter(|older| *older != pid);
        let mut ended = Vec::new();
        if let Some(older) = older {
            ended = mappings::read(older);
            for mapping in &ended {
                self.objects.open(OpenBy::Mapper(older), mapping);
            }
        }
        for mapping in code.mappings.iter() {
            mappings::add(&mut ended, mapping.clone());
        }
        match mappings::find(&ended, address) {
            Some(_) => {
                let neighbour = older.or(code.parent).map(OpenBy::Neighbour);
                (ended, neighbour.unwrap_or(OpenBy::Nobody))
            }
            None => (current, OpenBy::Mapper(pid)),
        }
    }

    /// Reads the mappings of a program, unless they have this address already.
    fn map(&mut self, program: ProgramKey, (address, time_ns): (u64, u64)) {
        let known = self.programs.get(&program);
        if known.is_some_and(|it| mappings::find(&it.mappings, address).is_some()) {
            return;
        }
        let (mappings, by) = self.read_mappings(program, (address, time_ns));
        let mut mapped = MappedFiles {
            mappings,
            ..MappedFiles::default()
        };
        for mapping in &mapped.mappings {
            let object = self.objects.open(by, mapping);
            mapped.unwinder.add(mapping, &object);
        }
        self.find_interpreter(program, &mut mapped);
        if mapped.mappings.is_empty() {
            return;
        }
        if self.programs.insert(program, mapped).is_none() {
            self.recent.push_back(program);
        }
        if self.recent.len() > MOST_PROGRAMS
            && let Some(oldest) = self.recent.pop_front()
        {
            self.programs.remove(&oldest);
        }
    }

    /// Finds Python's interpreter in a program, and has the kernel program read it.
    fn find_interpreter(&mut self, program: ProgramKey, mapped: &mut MappedFiles) {
        for mapping in &mapped.mappings {
            let Some(minor) = python::minor_version(&mapping.name) else {
                continue;
            };
            let object = self.objects.open(OpenBy::Mapper(program.pid), mapping);
            let linked = object
                .tables
                .as_ref()
                .and_then(|it| it.linked_address(mapping));
            let Some((linked, data)) = linked.zip(object.data.as_ref()) else {
                continue;
            };
            let base = mapping.addresses.start.wrapping_sub(linked);
            if let Some((process, evaluate)) = python::find(minor, data, base) {
                let own = mapped.mappings.iter().filter(|it| it.file == mapping.file);
                mapped.interpreter = Some(Interpreter {
                    code: own.map(|it| it.addresses.clone()).collect(),
                    evaluate,
                });
                if let Some(processes) = &self.python_processes {
                    processes.add(program, &process);
                }
                return;
            }
        }
    }

    /// Returns where in which file an address is.
    fn code_place(&mut self, program: ProgramKey, address: u64) -> Option<CodePlace> {
        let mapping = mappings::find(&self.programs.get(&program)?.mappings, address)?;
        if mapping.is_generated() {
            return Some(self.generated.place(program, address));
        }
        let offset = mapping.offset + (address - mapping.addresses.start);
        let object: Rc<Object> = self.objects.open(OpenBy::Mapper(program.pid), mapping);
        Some(CodePlace {
            object: Some(object),
            offset,
        })
    }

    /// Adds the row of one frame; `place` is None if the address is in no file.
    fn push(
        &mut self,
        stack: StackIdentity,
        depth: usize,
        place: Option<CodePlace>,
        caller: Caller,
        rows: &mut StackFrames,
    ) {
        let object = place.as_ref().map(|it| it.object.as_ref());
        let file = object.flatten();
        rows.push(StackFrame {
            time_ns: stack.time_ns,
            stack: stack.number,
            depth: depth as u16,
            pid: stack.pid,
            object: object.map(|it| it.map_or(KERNEL, |file| &file.path).to_owned()),
            build_id: file.and_then(|file| file.build_id.clone()),
            offset: place.as_ref().map(|it| it.offset),
            caller,
        });
        self.places.extend(place);
    }
}

impl StackIdentity {
    fn from_stack(stack: &SeenStack) -> Self {
        Self {
            time_ns: stack.time_ns,
            number: stack.number,
            pid: stack.program.map(|program| program.pid),
        }
    }
}

/// Returns the innermost address, and of callers, with addresses to return to, the last byte of
/// their calls: what follows a call may be another line or another function.
fn call_addresses(addresses: &[u64]) -> impl Iterator<Item = u64> {
    let innermost = addresses.first().copied();
    let callers = addresses.iter().skip(1).map(|at| at.saturating_sub(1));
    innermost.into_iter().chain(callers)
}

/// Unwinds a stack through one file and looks up the places; returns the number of frames.
pub(crate) fn unwind_through(file: File, addresses: Range<u64>, copied: &[u8]) -> usize {
    let object = Rc::new(Object::from_file("file", file));
    let mapping = Mapping {
        addresses: addresses.clone(),
        offset: 0,
        file: (String::new(), 1),
        name: "file".to_owned(),
    };
    let mut unwinder = ProgramUnwinder::default();
    unwinder.add(&mapping, &object);
    let stack = SeenStack {
        time_ns: 1,
        number: 1,
        program: None,
        addresses: vec![addresses.start],
        codes: Vec::new(),
        registers: Registers {
            ip: addresses.start + (addresses.end - addresses.start) / 2,
            sp: addresses.end,
            fp: addresses.end,
            lr: 0,
        },
        copied: copied.to_owned(),
    };
    let unwound = unwinder.unwind(&stack, |at| addresses.contains(&at));
    let places = unwound.addresses.iter().map(|at| CodePlace {
        object: Some(Rc::clone(&object)),
        offset: at.wrapping_sub(addresses.start),
    });
    symbols::look_up(places.collect(), None);
    unwound.addresses.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel numbers callers by words that may belong to earlier calls, too.
    #[test]
    fn equal_callers_have_one_stack() {
        let start = mappings::read as fn(u32) -> Vec<Mapping> as usize as u64;
        let program = ProgramKey {
            pid: std::process::id(),
            started_ns: 1,
            execs: 0,
        };
        let seen = |number| SeenStack {
            time_ns: 1,
            number,
            program: Some(program),
            addresses: vec![start],
            codes: Vec::new(),
            registers: Registers {
                ip: start,
                sp: 8,
                fp: 8,
                lr: 0,
            },
            copied: Vec::new(),
        };
        let (mut stacks, mut rows) = (Stacks::default(), StackFrames::default());
        stacks.put_callers(&seen(1), &mut rows);
        stacks.put_callers(&seen(2), &mut rows);
        let mut number = |callers, address| {
            let sample = SampledAddress { callers, address };
            stacks.add_sample(sample, &mut rows).expect("a stack")
        };
        let first = number(1, start);
        assert_eq!(number(2, start), first);
        assert_ne!(number(2, FIRST_SAMPLED.into()), first);
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn library_that_was_loaded_later_is_code() {
        let program = ProgramKey {
            pid: std::process::id(),
            started_ns: 1,
            execs: 0,
        };
        let own = mappings::read as fn(u32) -> Vec<Mapping> as usize as u64;
        let mut stacks = Stacks::default();
        assert!(!stacks.has_new_code(program, (own, 1))); // the program is not known
        stacks.programs.insert(program, MappedFiles::default());
        assert!(stacks.has_new_code(program, (own, 1)));
        stacks.map(program, (own, 1));
        assert!(!stacks.has_new_code(program, (own, 1)));
        assert!(!stacks.has_new_code(program, (8, 1)));
        assert!(stacks.programs[&program].no_code.contains(&8));
    }
}
