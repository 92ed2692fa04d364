//! A bug report describes whylat, and with `--redact` nothing else: the planted secrets are not in it.

use std::fs;
use std::process::Command;

use serde_json::Value;

use testbed::{finish, program, root};

/// Planted in a host's name, a command line, paths, addresses, users' names and the environment.
const SECRETS: [&str; 15] = [
    "canaryhost",
    "canarypath",
    "canaryarg",
    "canaryvalue",
    "canaryuser",
    "canaryvar",
    "10.66.77.88",
    "canarylog",
    "canaryhome",
    "10.66.77.99",
    "10.66.78.0",
    "10.66.79.1",
    "fd00:66::77",
    "fe80::66:77",
    "02:66:77:88:99:aa",
];

/// Records in a host of that name, in a directory of that name, a command with secrets, and reports it both ways.
const SCRIPT: &str = r#"
    hostname canaryhost.canarypath.example
    mkdir canarypath && cd canarypath
    export CANARYVAR=canaryvalue USER=canaryuser SUDO_USER=canaryuser
    "$0" run --detail stats --as-root -o canarypath.whylat -- \
        sh -c 'exit 0' canaryarg --password=canaryvalue --to 10.66.77.88:443 /srv/canarypath/canarylog \
        http://10.66.77.99:8080/canarypath '--peer=[fd00:66::77]:443' || exit 1
    echo '{"coverage":{"probe":"usdt","state":"off","why":"to=10.66.78.0/24, peer:10.66.79.1:80 (02:66:77:88:99:aa), http://[fe80::66:77%eth0]:80/x; not [::1]:80","remedy":"look into /home/canaryhome/x, canaryhome"}}' \
        >> canarypath.whylat/manifest.jsonl
    echo '{"coverage":{"probe":"usdt","state":"off","why":"cannot read /srv/canarypath/x: on 10.66.77.88, CanaryHost","remedy":"ask canaryuser"}}' \
        >> canarypath.whylat/manifest.jsonl
    "$0" bugreport canarypath.whylat -o plain && "$0" bugreport --redact canarypath.whylat -o redacted &&
        "$0" bugreport --redact canarypath.whylat -o ../redacted.tar.gz && mv plain redacted ..
"#;

#[test]
fn planted_secrets_are_redacted() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-ec", SCRIPT, program()]);
    let output = finish(command.current_dir(scratch.path()).env_remove("SUDO_UID"));
    output.assert_status(0);
    let archive = "mkdir unpacked && tar -xzf redacted.tar.gz -C unpacked && mv unpacked/whylat-bugreport/* unpacked/";
    finish(
        Command::new("sh")
            .args(["-ec", archive])
            .current_dir(scratch.path()),
    )
    .assert_status(0);
    let read = |folder: &str| -> String {
        let mut files: Vec<_> = fs::read_dir(scratch.path().join(folder))
            .expect("files")
            .flatten()
            .map(|it| it.path())
            .collect();
        files.sort();
        let texts = files
            .iter()
            .filter(|path| path.is_file())
            .map(|path| fs::read_to_string(path).expect("text"));
        texts.collect::<String>().to_lowercase()
    };
    let plain = read("plain");
    for secret in SECRETS.iter().filter(|it| !matches!(**it, "canaryvalue")) {
        assert!(plain.contains(secret), "{secret} was not planted: {plain}");
    }
    for folder in ["redacted", "unpacked"] {
        let text = read(folder);
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} is in {folder}: {text}");
        }
        assert!(
            text.contains("whylat.doctor/1") && text.contains("config_bpf"),
            "{text}"
        );
    }
    stays_of_use(
        &fs::read_to_string(scratch.path().join("redacted/recording-1.jsonl")).expect("a manifest"),
    );
}

/// Of a redacted manifest, what is whylat's own.
fn stays_of_use(manifest: &str) {
    let lines: Vec<Value> = manifest
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let header = &lines[0]["header"];
    assert_eq!(header["detail"], "stats");
    let arguments = header["arguments"].as_array().expect("arguments");
    assert_eq!(
        arguments[..5],
        ["whylat", "run", "--detail", "stats", "--as-root"]
    );
    // every host has this one
    assert!(manifest.contains("not [::1]:80"), "{manifest}");
    let off = &lines[lines.len() - 1]["coverage"];
    let why = off["why"].as_str().expect("text");
    assert!(
        why.starts_with("cannot read <") && why.contains(">: on <address-"),
        "{why}"
    );
    // the host of the header is the same word here
    let host = header["host"].as_str().expect("text");
    assert!(
        why.ends_with(host) || why.contains("<host-"),
        "{host}: {why}"
    );
}
