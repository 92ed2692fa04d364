//! Builds real instrumented programs, runs them with a ring, and collects what is recorded.

// Each test binary uses a part of it.
#![allow(dead_code)]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;

use tempfile::TempDir;
use testbed::sources::{c_library, compile};
use whylat_itt::{Body, COLLECTOR_VARIABLE, Losses, RING_VARIABLE, Record, Ring, RingShape};

/// The programs, built once a test binary.
pub struct Programs {
    dir: TempDir,
}

/// Returns the compiled test programs.
pub fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(Programs::build)
}

impl Programs {
    /// Compiles the test programs.
    fn build() -> Self {
        let built = Programs {
            dir: TempDir::new().expect("a directory"),
        };
        let library = c_library();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let include = format!("-I{}", library.join("include").display());
        let include_own = format!("-I{}", library.join("src/ittnotify").display());
        let part = built.path("ittnotify.o");
        let static_part = library.join("src/ittnotify/ittnotify_static.c");
        compile(
            "CC",
            "cc",
            &part,
            &static_part,
            &["-c", &include, &include_own],
        );
        let part = part.to_str().expect("a path");
        let link = [include.as_str(), part, "-ldl", "-lpthread"];
        let program = sources.join("program.c");
        compile("CC", "cc", &built.path("program"), &program, &link);
        let old_part = sources.join("old_part.c");
        let own = [include.as_str(), include_own.as_str(), "-ldl"];
        compile("CC", "cc", &built.path("old_part"), &old_part, &own);
        let plugin = [include.as_str(), part, "-shared", "-ldl"];
        compile(
            "CC",
            "cc",
            &built.path("plugin.so"),
            &sources.join("plugin.c"),
            &plugin,
        );
        let objects = sources.join("objects.cpp");
        compile("CXX", "c++", &built.path("objects"), &objects, &link);
        built
    }

    /// Returns the path of a built file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Returns the path of the collector built with this test.
pub fn collector() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let deps = test.parent().expect("a directory");
    let candidates = [deps.to_owned(), deps.join("..")];
    let names = candidates.map(|dir| dir.join("libwhylat_itt.so"));
    let found = names.iter().find(|path| path.exists());
    let found = found.unwrap_or_else(|| panic!("no libwhylat_itt.so at {names:?}"));
    found.canonicalize().expect("a path")
}

/// A ring, and a program that writes into it.
pub struct Session {
    dir: TempDir,
    /// The ring.
    pub ring: Ring,
    /// The records.
    pub records: Vec<Record>,
}

impl Session {
    /// Makes an empty ring of this shape.
    pub fn new(shape: RingShape) -> Self {
        let dir = TempDir::new().expect("a directory");
        let ring = Ring::create(&dir.path().join("ring"), shape).expect("a ring");
        Session {
            dir,
            ring,
            records: Vec::new(),
        }
    }

    /// A program that will write into the ring.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(programs().path(program));
        command.env(COLLECTOR_VARIABLE, collector());
        command.env(RING_VARIABLE, self.ring.path());
        command.env_remove("INTEL_ITTNOTIFY_GROUPS");
        command
    }

    /// Runs the program to its end without reading the ring.
    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> ExitStatus {
        let status = self.command("program").args(args).status();
        status.expect("the program runs")
    }

    /// Reads the ring until a program has ended, and the rest.
    pub fn follow(&mut self, mut child: Child) -> ExitStatus {
        loop {
            let status = child.try_wait().expect("a status");
            if self.read() == 0 {
                std::thread::yield_now();
            }
            if let Some(status) = status {
                return status;
            }
        }
    }

    /// Reads the records in the ring; returns their number.
    pub fn read(&mut self) -> usize {
        let records = &mut self.records;
        self.ring.drain(|record| records.push(record))
    }

    /// Runs the program to its end, and returns the records.
    pub fn record<A: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = A>) -> &[Record] {
        let status = self.run(args);
        assert!(status.success(), "the program says {status}");
        self.read();
        &self.records
    }

    /// Runs the program to its end, and returns the records; demands that none is missing.
    pub fn record_all<A: AsRef<OsStr>>(
        &mut self,
        args: impl IntoIterator<Item = A>,
    ) -> Vec<Record> {
        self.record(args);
        assert_eq!(self.ring.losses(), Losses::default());
        std::mem::take(&mut self.records)
    }
}

/// A small ring, for programs that write little.
pub const SMALL: RingShape = RingShape {
    chunks: 16,
    definition_chunks: 4,
    chunk_bytes: 16 << 10,
};

/// Names by id, over all that was defined.
pub fn names(records: &[Record]) -> HashMap<u32, String> {
    let name = |record: &Record| match &record.body {
        Body::Domain { id, name } | Body::Event { id, name } => Some((*id, name.clone())),
        Body::Text { id, text } => Some((*id, text.clone())),
        Body::Counter { id, name, .. } | Body::Histogram { id, name, .. } => {
            Some((*id, name.clone()))
        }
        _ => None,
    };
    records.iter().filter_map(name).collect()
}

/// Returns all records but definitions.
pub fn bodies(records: &[Record]) -> Vec<&Body> {
    let is_definition = |body: &Body| {
        matches!(
            body,
            Body::Domain { .. }
                | Body::Text { .. }
                | Body::Counter { .. }
                | Body::Histogram { .. }
                | Body::Event { .. }
        )
    };
    let bodies = records.iter().map(|record| &record.body);
    bodies.filter(|body| !is_definition(body)).collect()
}
