//! Compiles the BPF programs and generates their Rust skeletons, wire types included.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

/// Objects, and what their skeletons are called.
const OBJECTS: [(&str, &str); 4] = [
    ("src/bpf/hooks.bpf.c", "hooks.skel.rs"),
    ("src/activity/activity.bpf.c", "activity.skel.rs"),
    ("src/usdt/usdt.bpf.c", "usdt.skel.rs"),
    ("src/nic/nic.bpf.c", "nic.skel.rs"),
];

/// Returns the folder of the kernel's headers that each architecture has of its own: Debian has it for this machine's
/// architecture and for others that it compiles for; elsewhere clang finds it by itself.
fn find_headers(arch: &str) -> Option<String> {
    [
        format!("/usr/include/{arch}-linux-gnu"),
        format!("/usr/{arch}-linux-gnu/include"),
    ]
    .into_iter()
    .find(|folder| Path::new(folder).join("asm/bpf_perf_event.h").exists())
}

/// Returns the newest installed clang: Debian gives each version a name of its own.
fn find_clang() -> PathBuf {
    println!("cargo:rerun-if-env-changed=CLANG");
    if let Some(clang) = env::var_os("CLANG") {
        return clang.into();
    }
    let names = (16..=25).rev().map(|version| format!("clang-{version}"));
    names
        .chain(["clang".to_owned()])
        .find(|name| Command::new(name).arg("--version").output().is_ok())
        .unwrap_or_else(|| {
            panic!(
                "no clang found (clang, or clang-16 to clang-25), which compiles the BPF programs\n\
                 hint: apt-get install clang-19 libelf-dev zlib1g-dev, or dnf install clang elfutils-libelf-devel \
                 zlib-ng-compat-devel; or name one: CLANG=/path/clang"
            )
        })
        .into()
}

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the architecture");
    let arch = match target.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => panic!("BPF programs are not written for architecture {other} yet"),
    };
    let headers = find_headers(&target).map(|folder| format!("-I{folder}"));
    let clang = find_clang();
    for (source, skeleton) in OBJECTS {
        SkeletonBuilder::new()
            .source(source)
            .clang(&clang)
            // The object stays a file beside: as the source text of an array it has 10 MB, which takes long to format
            // and to compile.
            .reference_obj(true)
            .clang_args(
                [
                    "-mcpu=v3",
                    "-Wall",
                    "-Werror",
                    &format!("-D__TARGET_ARCH_{arch}"),
                ]
                .into_iter()
                .chain(headers.as_deref()),
            )
            .build_and_generate(out.join(skeleton))
            .unwrap_or_else(|error| panic!("{source}: {error:#}"));
    }
    let folders = fs::read_dir("src").expect("folder of this crate").flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
    for file in files.flatten() {
        let path = file.path();
        if path.extension().is_some_and(|ext| ext == "h" || ext == "c") {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    println!("cargo:rerun-if-changed=build.rs");
}
