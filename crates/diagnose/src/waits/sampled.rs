//! The function that a sample names: the innermost of the program's own code, as its language knows it. What a system's
//! library or the kernel did counts for the function that called it.

use super::report::{Frame, WaitStack};

/// Object of functions of the Python interpreter.
pub(super) const PYTHON: &str = "[python]";

/// Why a function has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoName {
    /// There is no stack.
    NoStack,
    /// Code that Node.js made, which writes no map.
    Node,
    /// Code that a Java machine made, which writes no map.
    Java,
    /// Other code that a program made.
    Generated,
}

impl NoName {
    /// Returns why the function has no name.
    pub const fn why(self) -> &'static str {
        match self {
            Self::NoStack => "the call stack could not be read",
            Self::Node => "Node.js compiled them and wrote no map",
            Self::Java => "the Java machine compiled them and wrote no map",
            Self::Generated => "the program made this code and wrote no map",
        }
    }

    /// Returns the remedy for missing names; `None`: there is none.
    pub const fn remedy(self) -> Option<&'static str> {
        match self {
            Self::NoStack => None,
            Self::Node => Some("start it with node --perf-basic-prof"),
            Self::Java => Some(
                "start it with java -XX:+PreserveFramePointer, and while it is recorded run: jcmd PID Compiler.perfmap",
            ),
            Self::Generated => Some("have it write /tmp/perf-PID.map"),
        }
    }
}

/// The function of a sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SampledFunction {
    /// Its name.
    pub name: String,
    /// Its source file.
    pub source: Option<String>,
    /// The line there.
    pub line: Option<u32>,
    /// Why it has none.
    pub no_name: Option<NoName>,
}

impl SampledFunction {
    /// Returns the function of a stack of a process.
    pub(super) fn new(stack: Option<&WaitStack>, comm: Option<&str>) -> Self {
        let own = stack.and_then(own_frame);
        let Some(frame) = own else {
            return Self {
                no_name: Some(NoName::NoStack),
                ..Self::default()
            };
        };
        let object = frame.object.as_deref().unwrap_or_default();
        let is_generated = frame.function.is_none() && (object.is_empty() || is_perf_map(object));
        Self {
            name: frame.name(),
            source: frame.source.clone(),
            line: frame.line,
            no_name: is_generated.then(|| generated_by(comm.unwrap_or_default())),
        }
    }
}

/// Returns why code that a program generated has no name.
fn generated_by(comm: &str) -> NoName {
    match comm {
        _ if comm.starts_with("node") => NoName::Node,
        _ if comm.starts_with("java") => NoName::Java,
        _ => NoName::Generated,
    }
}

/// The innermost frame in the program's own language; else outside of the system's libraries; else the innermost. What
/// the compiler put into it counts for it: a sample of a function has its first address, not its own.
pub(super) fn own_frame(stack: &WaitStack) -> Option<&Frame> {
    let frames = || stack.frames.iter().filter(|frame| !frame.inlined);
    let named = frames().find(|frame| is_of_language(frame) && frame.function.is_some());
    let own = named.or_else(|| frames().find(|frame| !is_of_system(frame)));
    own.or_else(|| frames().next())
}

/// Returns whether a frame is a function of an interpreter, or of code that a program made and named.
pub(super) fn is_of_language(frame: &Frame) -> bool {
    let object = frame.object.as_deref().unwrap_or_default();
    object == PYTHON || is_perf_map(object)
}

/// Returns whether the file is `/tmp/perf-PID.map`, which names generated code.
fn is_perf_map(object: &str) -> bool {
    let name = object.strip_prefix("/tmp/perf-");
    name.is_some_and(|name| name.ends_with(".map"))
}

/// Returns whether the frame is in a library of the system.
fn is_of_system(frame: &Frame) -> bool {
    let object = frame.object.as_deref().unwrap_or_default();
    let is_there = ["/lib", "/usr/lib"].iter().any(|it| object.starts_with(it));
    object == VDSO || is_library(object) && is_there
}

/// The kernel's part of a program, which holds functions for it.
const VDSO: &str = "[vdso]";

/// Returns whether a file is a shared library, not the program itself.
pub(super) fn is_library(object: &str) -> bool {
    object == VDSO || object.contains(".so")
}

#[cfg(test)]
mod tests {
    use table::Caller;

    use super::*;

    fn frame(object: &str, function: Option<&str>) -> Frame {
        Frame {
            function: function.map(str::to_owned),
            object: Some(object.to_owned()),
            ..Frame::default()
        }
    }

    /// Names the function of these frames: object and function of each.
    fn function(frames: &[(&str, Option<&str>)], comm: &str) -> SampledFunction {
        let frames = frames.iter().map(|(object, name)| frame(object, *name));
        let stack = WaitStack {
            frames: frames.collect(),
            caller: Caller::None,
        };
        SampledFunction::new(Some(&stack), Some(comm))
    }

    #[test]
    fn program_frame_is_named_instead_of_library() {
        let c = ("/usr/lib/x86_64-linux-gnu/libc.so.6", Some("memcpy"));
        let own = ("/usr/bin/server", Some("process_command"));
        assert_eq!(function(&[c, own], "server").name, "process_command");
        assert_eq!(function(&[c], "server").name, "memcpy");
        let python = ("[python]", Some("handle"));
        let interpreter = ("/usr/bin/python3.11", Some("_PyEval_EvalFrameDefault"));
        let inner = ("[python]", Some("handle.<locals>.<genexpr>"));
        let name = function(&[inner, python], "python3").name;
        assert_eq!(name, "handle.<locals>.<genexpr>", "whole: it has no types");
        let names = function(&[c, interpreter, python], "python3");
        assert_eq!((names.name.as_str(), names.no_name), ("handle", None));
    }

    #[test]
    fn missing_name_has_a_reason() {
        let generated = ("", None);
        let node = ("/usr/bin/node", Some("main"));
        let why = |frames: &[_], comm| function(frames, comm).no_name;
        assert_eq!(why(&[generated, node], "node"), Some(NoName::Node));
        assert_eq!(why(&[generated], "java"), Some(NoName::Java));
        assert_eq!(why(&[generated], "luajit"), Some(NoName::Generated));
        assert_eq!(why(&[("/tmp/perf-7.map", Some("f")), node], "node"), None);
        assert_eq!(why(&[("/usr/bin/stripped", None)], "stripped"), None);
        let none = SampledFunction::new(None, None);
        assert_eq!(none.no_name, Some(NoName::NoStack));
    }
}
