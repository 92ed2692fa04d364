//! The ittnotify sources are those that the crate `ittapi-sys` ships; `cargo metadata` says where
//! they are. A C and a C++ compiler are also needed (`CC` and `CXX` name others).

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a source file; `variable` of the environment names the compiler.
pub fn compile(variable: &str, compiler: &str, output: &Path, source: &Path, more: &[&str]) {
    let compiler = std::env::var(variable).unwrap_or_else(|_| compiler.to_owned());
    let mut command = Command::new(&compiler);
    command
        .args(["-O1", "-g", "-fPIC", "-o"])
        .arg(output)
        .arg(source)
        .args(more);
    let status = command.status();
    let status = status.unwrap_or_else(|why| panic!("cannot run the compiler {compiler}: {why}"));
    assert!(status.success(), "{command:?} failed");
}

/// Returns the folder with the ittnotify sources.
pub fn c_library() -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--manifest-path"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../itt/Cargo.toml"));
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "cargo metadata failed");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let found = packages
        .iter()
        .find(|package| package["name"] == "ittapi-sys");
    let manifest = found.expect("ittapi-sys")["manifest_path"].as_str();
    let manifest = Path::new(manifest.expect("a path"));
    manifest.with_file_name("c-library")
}
