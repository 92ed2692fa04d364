//! Where each version of CPython keeps what its threads run. Up to 3.12 its headers say it (`Include/internal/`), the same
//! for all 64-bit builds; from 3.13 on the interpreter says it itself: `_PyRuntime` begins with `_Py_DebugOffsets`, which
//! the file has as the process does.

use crate::wire::types::python_process;

/// A field that a version does not have (`python.h`).
const NONE: u16 = u16::MAX;

/// Offsets of one version, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    interpreters_head: u16,
    interpreter_next: u16,
    threads_head: u16,
    thread_id: u16,
    thread_frame: u16,
    current_frame: u16,
    frame_code: u16,
    frame_previous: u16,
    frame_owner: u16,
    code_name: u16,
    code_file: u16,
    code_line: u16,
    text_bytes: u16,
}

/// `PyFrameObject` with functions that have no qualified name: 3.8 to 3.10.
const OBJECTS: Layout = Layout {
    interpreters_head: 32,
    interpreter_next: 0,
    threads_head: 8,
    thread_id: 176,
    thread_frame: 24,
    current_frame: NONE,
    frame_code: 32,
    frame_previous: 24,
    frame_owner: NONE,
    code_name: 112,
    code_file: 104,
    code_line: 40,
    text_bytes: 48,
};

/// `_PyInterpreterFrame`, which `_PyCFrame` leads to: 3.11.
const PYTHON_3_11: Layout = Layout {
    interpreters_head: 40,
    interpreter_next: 0,
    threads_head: 16,
    thread_id: 152,
    thread_frame: 56,
    current_frame: 8,
    frame_code: 32,
    frame_previous: 48,
    frame_owner: 69,
    code_name: 128,
    code_file: 112,
    code_line: 72,
    text_bytes: 48,
};

/// The same with other offsets: 3.12.
const PYTHON_3_12: Layout = Layout {
    interpreters_head: 40,
    interpreter_next: 0,
    threads_head: 72,
    thread_id: 136,
    thread_frame: 56,
    current_frame: 0,
    frame_code: 0,
    frame_previous: 8,
    frame_owner: 70,
    code_name: 128,
    code_file: 112,
    code_line: 68,
    text_bytes: 40,
};

/// Size of the header of an ASCII text since 3.12.
const TEXT_BYTES: u16 = 40;

/// The next thread, after the one before: of all versions.
const THREAD_NEXT: u16 = 8;

/// Of a text, after its count of references and its type: the length, a hash, and its form.
const TEXT_LENGTH: u16 = 16;
const TEXT_STATE: u16 = 32;

/// Words of `_Py_DebugOffsets` before the fields of interpreters: a cookie, the version, whether there is no GIL, and three
/// of the runtime.
const RUNTIME_HEAD: usize = 5;
const INTERPRETER: usize = 6;

/// Begins the table.
const COOKIE: &[u8] = b"xdebugpy";

/// Greatest offset that can be one.
const OFFSET_MOST: u64 = 32_000;

impl Layout {
    /// Returns the offsets of version 3.`minor`. `runtime`: what the file has of `_PyRuntime`.
    pub(super) fn from_version(minor: u32, runtime: &[u8]) -> Option<Self> {
        match minor {
            8..=10 => Some(OBJECTS),
            11 => Some(PYTHON_3_11),
            12 => Some(PYTHON_3_12),
            13 | 14 => Self::from_table(minor, runtime),
            _ => None,
        }
    }

    /// Reads the layout of an interpreter from its `_Py_DebugOffsets`.
    fn from_table(minor: u32, runtime: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = runtime.get(at * 8..at * 8 + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        let version = word(1)?;
        let is_own = runtime.starts_with(COOKIE)
            && version >> 24 == 3
            && version >> 16 & 0xff == u64::from(minor);
        if !is_own || word(2)? != 0 {
            return None; // without the GIL the fields of references are others
        }
        // 3.14 has three fields of interpreters more (threads_main, and two at the end), and two of frames
        let (interpreters, frames) = match minor {
            13 => (13, 6),
            _ => (16, 8),
        };
        let thread = INTERPRETER + interpreters;
        let frame = thread + 9;
        let code = frame + frames;
        let is_thread = word(thread + 1)? == 0 && word(thread + 2)? == u64::from(THREAD_NEXT);
        let offset = |at: usize| word(at).filter(|it| *it <= OFFSET_MOST)?.try_into().ok();
        let layout = Self {
            interpreters_head: offset(RUNTIME_HEAD)?,
            interpreter_next: offset(INTERPRETER + 2)?,
            threads_head: offset(INTERPRETER + 3)?,
            thread_frame: offset(thread + 4)?,
            thread_id: offset(thread + 5)?,
            current_frame: NONE,
            frame_previous: offset(frame + 1)?,
            frame_code: offset(frame + 2)?,
            frame_owner: offset(frame + 5)?,
            code_file: offset(code + 1)?,
            code_name: offset(code + 3)?,
            code_line: offset(code + 5)?,
            text_bytes: TEXT_BYTES,
        };
        let is_frame = layout.frame_previous != layout.frame_code && layout.frame_owner < 128;
        let is_code = layout.code_file < 512 && layout.code_name < 512 && layout.code_line < 512;
        (is_thread && is_frame && is_code).then_some(layout)
    }

    /// Returns what the kernel side needs of a process.
    pub(super) fn process(&self, runtime: u64) -> python_process {
        let Self {
            interpreters_head,
            interpreter_next,
            threads_head,
            thread_id,
            thread_frame,
            current_frame,
            frame_code,
            frame_previous,
            frame_owner,
            code_name,
            code_file,
            code_line,
            text_bytes,
        } = *self;
        python_process {
            runtime,
            interpreters_head,
            interpreter_next,
            threads_head,
            thread_next: THREAD_NEXT,
            thread_id,
            thread_frame,
            current_frame,
            frame_code,
            frame_previous,
            frame_owner,
            code_name,
            code_file,
            code_line,
            text_length: TEXT_LENGTH,
            text_state: TEXT_STATE,
            text_bytes,
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the `_Py_DebugOffsets` of CPython 3.13.0 on x86-64, up to the code object.
    fn table_3_13() -> Vec<u8> {
        let words: [u64; 44] = [
            u64::from_ne_bytes(*b"xdebugpy"),
            0x030d_00f0,
            0,
            283_320,
            608,
            632, // runtime
            194_968,
            7272,
            7264,
            7344,
            7400,
            7656,
            7640,
            7648,
            16,
            7752,
            0,
            7768,
            7760, // interpreter
            304,
            0,
            8,
            16,
            72,
            152,
            160,
            232,
            32, // thread
            80,
            8,
            0,
            56,
            72,
            70, // frame
            208,
            112,
            120,
            128,
            136,
            68,
            52,
            96,
            104,
            200, // code object
        ];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn field_offsets_are_read_from_the_interpreter() {
        let layout = Layout::from_version(13, &table_3_13()).expect("a layout");
        let expected = Layout {
            interpreters_head: 632,
            interpreter_next: 7264,
            threads_head: 7344,
            thread_id: 152,
            thread_frame: 72,
            current_frame: NONE,
            ..PYTHON_3_12
        };
        assert_eq!(layout, expected);
    }

    #[test]
    fn impossible_offsets_are_refused() {
        let table = table_3_13();
        for cut in 0..table.len() - 5 * 8 {
            assert_eq!(Layout::from_version(13, &table[..cut]), None, "{cut}");
        }
        assert_eq!(Layout::from_version(14, &table), None, "of another version");
        for at in [0, 16, 5 * 8 + 3, 29 * 8 + 6, 35 * 8 + 7] {
            let mut table = table.clone();
            table[at] = 0xff;
            assert_eq!(Layout::from_version(13, &table), None, "{at}");
        }
        for minor in [7, 15] {
            assert_eq!(Layout::from_version(minor, &table), None, "{minor}");
        }
    }
}
