//! Names of the files that threads waited for, against what the program itself knows of them.

use table::WaitObject;
use table::tables::{Wait, WaitedFile};
use testbed::report::{number, text};
use testbed::{record_command, root, write_source};

const FILES: &str = include_str!("programs/files.py");

#[test]
fn files_are_named_exactly_also_deleted_ones() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let source = write_source(scratch.path(), "files.py", FILES);
    let folder = scratch.path().to_str().expect("text").to_owned();
    let command = ["python3", &source, &folder];
    let (report, lines) = record_command(scratch, &["--detail", "waits"], &command);
    report.assert_whole();
    let files: Vec<WaitedFile> = report.rows();
    let waits: Vec<Wait> = report.rows();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        let device = u32::try_from(number(line, "/device")).expect("a device");
        let inode = number(line, "/inode");
        let found: Vec<_> = files
            .iter()
            .filter(|it| it.device == device && it.inode == inode)
            .collect();
        let [file] = found.as_slice() else {
            panic!("{line}: {files:#?}");
        };
        assert_eq!(file.path.as_deref(), Some(text(line, "path")));
        assert_eq!(file.deleted, text(line, "name") == "deleted file");
        let number = (device >> 20, device & 0xfffff);
        let sys = format!("/sys/dev/block/{}:{}", number.0, number.1);
        let link = std::fs::read_link(sys).ok();
        let disk = link.as_ref().and_then(|link| link.file_name()?.to_str());
        assert_eq!(file.disk.as_deref(), disk);
        let waited = waits.iter().any(|it| {
            it.kind == WaitObject::File && it.device == Some(device) && it.object == Some(inode)
        });
        assert!(waited, "{line}");
    }
}
