//! Compiles the BPF programs and generates their Rust skeletons, wire types included.

use std::path::PathBuf;
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
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("BPF programs are not written for architecture {other:?} yet"),
    };
    let multiarch = format!("/usr/include/{}-linux-gnu", env::consts::ARCH);
    let clang = find_clang();
    for (source, skeleton) in OBJECTS {
        SkeletonBuilder::new()
            .source(source)
            .clang(&clang)
            // The object stays a file beside: as the source text of an array it has 10 MB, which takes long to format and to compile.
            .reference_obj(true)
            .clang_args([
                format!("-D__TARGET_ARCH_{arch}"),
                "-mcpu=v3".to_owned(),
                "-Wall".to_owned(),
                "-Werror".to_owned(),
                format!("-I{multiarch}"),
            ])
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
