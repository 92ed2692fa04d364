//! The lab around a wire: routes with a congestion control, the `wire`
//! command, and that nothing is left when its process is killed.
//! Needs root: it makes network namespaces.

#[allow(dead_code)]
mod common;

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use common::{assert_account, exchange, may_make_namespaces, program, received, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use socket2::SockRef;
use whylat_lab::wire::{PacketRecord, WireStats};
use whylat_lab::{LabProcess, Netns, Wire, WireConfig};

#[test]
fn congestion_control_follows_the_route() {
    if !may_make_namespaces() {
        return;
    }
    for congctl in ["cubic", "bbr", "reno"] {
        let config = WireConfig {
            congctl: Some(congctl.into()),
            ..WireConfig::default()
        };
        let wire = Wire::start(config).unwrap();
        let used = |netns: &Netns, from: &Netns, address: &str| {
            let listener = netns
                .run(|| TcpListener::bind((address, 0)).unwrap())
                .unwrap();
            let to = listener.local_addr().unwrap();
            let client = from.run(|| TcpStream::connect(to).unwrap()).unwrap();
            let server = listener.accept().unwrap().0;
            [client, server].map(|end| {
                let name = SockRef::from(&end).tcp_congestion().unwrap();
                String::from_utf8_lossy(&name)
                    .trim_end_matches('\0')
                    .to_owned()
            })
        };
        let b = wire.address_b().to_string();
        assert_eq!(
            used(&wire.b, &wire.a, &b),
            [congctl, congctl],
            "over the wire"
        );
        assert_eq!(
            used(&wire.a, &wire.a, "127.0.0.1"),
            [congctl, congctl],
            "over loopback"
        );
    }
}

/// Returns whether any process still is in the namespace or holds a descriptor of it.
fn namespace_is_held(inode: u64) -> bool {
    let name = format!("net:[{inode}]");
    let points_there = |path: std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy() == name)
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|process| {
            let fds = std::fs::read_dir(process.path().join("fd"));
            points_there(process.path().join("ns/net"))
                || fds.is_ok_and(|fds| fds.flatten().any(|fd| points_there(fd.path())))
        })
}

#[test]
fn nothing_is_left_after_sigkill() {
    if !may_make_namespaces() {
        return;
    }
    let named = || {
        Command::new("ip")
            .args(["netns", "list"])
            .output()
            .unwrap()
            .stdout
    };
    let devices = || {
        Command::new("ip")
            .args(["-o", "link"])
            .output()
            .unwrap()
            .stdout
    };
    let before = (named(), devices());
    let mut command = Command::new(program());
    command.arg("wire");
    let mut holder = LabProcess::start(command).unwrap();
    let ready = holder.line().unwrap();
    let ends = ["a", "b"].map(|end| {
        let inode = ready[end]["inode"].as_u64().unwrap();
        let held = std::fs::File::open(ready[end]["netns"].as_str().unwrap()).unwrap();
        (inode, held)
    });
    // Descriptors of our own show that the device goes even while the namespace stays.
    let [(inode_a, a), (inode_b, b)] = ends;
    let netns = [Netns::try_from(a).unwrap(), Netns::try_from(b).unwrap()];
    for netns in &netns {
        assert_eq!(netns.devices().unwrap(), ["lo", "wire0"]);
    }
    kill(
        Pid::from_raw(i32::try_from(holder.pid()).unwrap()),
        Signal::SIGKILL,
    )
    .unwrap();
    for netns in netns {
        until("the device gone", || netns.devices().unwrap() == ["lo"]);
        drop(netns);
    }
    for inode in [inode_a, inode_b] {
        until("the namespace gone", || !namespace_is_held(inode));
    }
    assert_eq!(before, (named(), devices()));
}

#[test]
fn the_wire_command_reports_and_writes_its_log() {
    if !may_make_namespaces() {
        return;
    }
    let path = std::env::temp_dir().join(format!("whylat-lab-{}.jsonl", std::process::id()));
    let mut command = Command::new(program());
    command
        .args(["wire", "--delay-us", "1000", "--congctl", "cubic", "--log"])
        .arg(&path);
    let mut wire = LabProcess::start(command).unwrap();
    let ready = wire.line().unwrap();
    let [a, b] = ["a", "b"].map(|end| {
        let path = ready[end]["netns"].as_str().unwrap();
        Netns::try_from(std::fs::File::open(path).unwrap()).unwrap()
    });
    let address = ready["b"]["address"].as_str().unwrap();
    let (_, sink) = exchange((&b, address, "sink"), (&a, "stream --bytes 10007"));
    assert_eq!(received(&sink), 10_007);
    let stats: WireStats = serde_json::from_value(wire.finish().unwrap()["stats"].clone()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let log: Vec<PacketRecord> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_account(&stats, &log);
}
