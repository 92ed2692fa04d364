//! Files that threads waited for, by thread.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use table::manifest::Header;
use table::tables::Waits;
use table::{Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::requests::file_lock::is_file_lock;
use crate::waits::NameTable;

/// Files that are kept of one thread: the first ones.
const FILES_MOST: usize = 256;

/// Device and inode number.
pub type FileKey = (u32, u64);

/// Waits for files, by thread.
#[derive(Debug, Default)]
pub struct FileWaitDigest {
    /// Time by thread, and by file in the order of their keys, ns.
    threads: HashMap<u32, BTreeMap<FileKey, u64>>,
    /// The same of waits for locks of files.
    locks: HashMap<u32, BTreeMap<FileKey, u64>>,
}

impl RecordingDigest for FileWaitDigest {
    fn new(_: &Header, _: &Rc<NameTable>) -> Self {
        Self::default()
    }
}

impl TableConsumer for FileWaitDigest {
    fn is_reader_of(&self, table: TableId) -> bool {
        table == TableId::Wait
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        if let Rows::Wait(rows) = rows {
            self.add(rows);
        }
    }
}

impl FileWaitDigest {
    /// Adds time that threads waited for the disk or for locks, by file.
    fn add(&mut self, rows: &Waits) {
        for row in 0..rows.device.len() {
            let Some(file) = rows.device[row].zip(rows.object[row]) else {
                continue;
            };
            let threads = match is_file_lock(rows, row) {
                true => &mut self.locks,
                false => &mut self.threads,
            };
            let files = threads.entry(rows.tid[row]).or_default();
            if files.len() < FILES_MOST || files.contains_key(&file) {
                // from then on it waited for a CPU
                let ready_ns = rows.woken_ns[row].unwrap_or(rows.end_ns[row]);
                let ns = ready_ns.saturating_sub(rows.start_ns[row]);
                *files.entry(file).or_default() += ns;
            }
        }
    }

    /// Returns the files that a thread waited for, the one with the most time first, with that time, ns.
    pub fn files_of(&self, tid: u32) -> Vec<(FileKey, u64)> {
        sort_files(&self.threads, tid)
    }

    /// Returns the files with locks that a thread waited for, the one with the most time first, with that time, ns.
    pub fn locks_of(&self, tid: u32) -> Vec<(FileKey, u64)> {
        sort_files(&self.locks, tid)
    }
}

/// Returns the files of a thread, the one with the most time first.
fn sort_files(threads: &HashMap<u32, BTreeMap<FileKey, u64>>, tid: u32) -> Vec<(FileKey, u64)> {
    let files = threads.get(&tid).into_iter().flatten();
    let mut files: Vec<_> = files.map(|(file, ns)| (*file, *ns)).collect();
    files.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    files
}
