//! `--container` records the connections of that container, and of nobody else: of one that Podman runs, where that is
//! installed and can, and of processes with the files and control groups of Docker. `--pod` does so for a pod, of processes with
//! the files and control groups of containerd.
//!
//! Each test has a mount namespace of its own, in which the runtimes' folders are empty: a host's containers are neither seen
//! nor touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use lab::{LabProcess, Netns};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;

use crate::select::{
    Pair, assert_client_chosen, client_by, client_words, record_both, remove_group,
};
use testbed::{Recorder, finish, program, root, until, whylat};

const NAME: &str = "whylat-cache";

/// Does it where no runtime has anything: the calling thread's children are in the namespace, and the thread ends.
fn without_containers(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount_on("/", "none", private);
            for folder in ["/var/lib", "/run", "/dev/shm"] {
                mount_on(folder, "tmpfs", MsFlags::empty());
            }
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn mount_on(folder: &str, kind: &str, flags: MsFlags) {
    let mounted = mount(Some("none"), folder, Some(kind), flags, None::<&str>);
    mounted.unwrap_or_else(|why| panic!("{kind} on {folder}: {why}"));
}

/// A control group that looks as if Docker had made it for a container.
struct Group {
    id: String,
    path: PathBuf,
}

impl Group {
    fn below(tree: &Path) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let id = format!("{number:08x}{:056x}", std::process::id());
        Self::at(tree.join(format!("docker-{id}.scope")), id)
    }

    /// As containerd makes one for a container of a pod.
    fn in_pod(pod: &Group) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let id = format!("{number:08x}{:056x}", std::process::id());
        Self::at(pod.path.join(&id), id)
    }

    fn at(path: PathBuf, id: String) -> Self {
        fs::create_dir(&path).expect("a control group");
        Self { id, path }
    }

    /// A client in it.
    fn client(&self, netns: &Netns) -> Pair {
        let procs = self.path.join("cgroup.procs");
        let join = format!("echo $$ > {} && exec \"$0\" \"$@\"", procs.display());
        let words = ["sh", "-c", &join, program()];
        Pair::start_as(netns, |port| client_by(netns, &words, port))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove_group(&self.path);
    }
}

/// Where a tree of control groups is mounted: `cgroup2`, or `cgroup` with this controller.
fn tree(kind: &str, option: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
    let found = mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_it = words[2] == kind && words[3].split(',').any(|it| it == option);
        is_it.then(|| words[1].into())
    });
    if found.is_none() {
        println!("skipped: no {kind} tree with {option} here");
    }
    found
}

/// Writes Docker's own file of a container with this as its first process.
fn write_docker_config(id: &str, pid: u32) {
    let dir = Path::new("/var/lib/docker/containers").join(id);
    let state = json!({ "Running": true, "Pid": pid });
    let config = json!({ "ID": id, "Name": format!("/{NAME}"), "State": state });
    fs::create_dir_all(&dir).expect("a folder");
    fs::write(dir.join("config.v2.json"), config.to_string()).expect("a file");
}

/// Records the container of a group by its name, beside a pair that is in none; returns the namespace of both.
fn assert_recorded_by_name(group: &Group) -> Netns {
    let netns = Netns::new().expect("a namespace");
    let pair = group.client(&netns);
    write_docker_config(&group.id, pair.client.pid());
    let other = Pair::start(&netns);
    let (report, ends, _) = record_both(&format!("--container {NAME}"), pair, other);
    assert_client_chosen(&report, &ends);
    netns
}

#[test]
fn container_by_name_and_id_prefix() {
    let Some(tree) = root().then(|| tree("cgroup2", "rw")).flatten() else {
        return;
    };
    without_containers(|| {
        let group = Group::below(&tree);
        let netns = assert_recorded_by_name(&group);

        // one that runs already, as a container has to, and one that begins later
        let first = group.client(&netns);
        write_docker_config(&group.id, first.client.pid());
        let recorder = Recorder::start(&format!("--container {}", &group.id[..12]));
        let mut later = group.client(&netns);
        later.go();
        let ends = later.finish();
        let report = recorder.stop();
        let client = report.by_cookie(ends.client);
        assert_eq!(client["chosen"], "target", "{client:#}");
    });
}

#[test]
fn container_outside_cgroup_v2() {
    let Some(tree) = root().then(|| tree("cgroup", "pids")).flatten() else {
        return;
    };
    without_containers(|| {
        assert_recorded_by_name(&Group::below(&tree));
    });
}

#[test]
fn unknown_container_lists_containers() {
    if !root() {
        return;
    }
    without_containers(|| {
        let ask = || finish(&mut whylat("record -d 1 --container nosuch"));
        ask()
            .assert_status(1)
            .explains("no container has the name or id nosuch");
        write_docker_config(&"5".repeat(64), 0);
        finish(&mut whylat(&format!("top --once --container {NAME}")))
            .assert_status(1)
            .explains("does not run");
    });
}

/// Starts a client as a container of a pod. containerd writes what it runs before the first process, and its id after.
fn start_in_pod(group: &Group, netns: &Netns, uid: &str, name: &str) -> Pair {
    let tasks = Path::new("/run/containerd/io.containerd.runtime.v2.task/k8s.io");
    let annotations = json!({
        "io.kubernetes.cri.container-name": name,
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-name": "cache-0",
        "io.kubernetes.cri.sandbox-namespace": "shop",
        "io.kubernetes.cri.sandbox-uid": uid,
    });
    let dir = tasks.join(&group.id);
    fs::create_dir_all(&dir).expect("a folder");
    let config = json!({ "annotations": annotations }).to_string();
    fs::write(dir.join("config.json"), config).expect("a file");
    let pair = group.client(netns);
    fs::write(dir.join("init.pid"), pair.client.pid().to_string()).expect("a file");
    pair
}

/// All containers of the pod are recorded, also one that begins later, and the report names them.
#[test]
fn pod_by_name_has_all_its_containers() {
    let Some(tree) = root().then(|| tree("cgroup2", "rw")).flatten() else {
        return;
    };
    without_containers(|| {
        let uid = format!("{:08x}-1111-2222-3333-444444444444", std::process::id());
        let pods = Group::at(
            tree.join(format!("whylat{}-kubepods", std::process::id())),
            String::new(),
        );
        let pod = Group::at(pods.path.join(format!("pod{uid}")), uid.clone());
        let netns = Netns::new().expect("a namespace");
        let groups = [Group::in_pod(&pod), Group::in_pod(&pod)];
        let mut first = start_in_pod(&groups[0], &netns, &uid, "redis");
        let mut other = Pair::start(&netns);
        let recorder = Recorder::start("--pod shop/cache-0");
        let mut later = start_in_pod(&groups[1], &netns, &uid, "exporter");
        for pair in [&mut first, &mut other] {
            pair.go();
        }
        let (first, other) = (first.finish(), other.finish());
        // it is connected, and lives until its control group has been read
        let report = recorder.stop();
        later.go();
        let later = later.finish();
        for ends in [&first, &later] {
            let client = report.by_cookie(ends.client);
            assert_eq!(client["chosen"], "target", "{client:#}");
        }
        let mut cookies = report.connections().iter().map(|it| &it["id"]);
        assert!(!cookies.any(|id| *id == other.client), "of no container");
        let containers = &report.json["containers"];
        let listed = containers.as_array().expect("containers");
        let names: Vec<_> = listed.iter().map(|it| &it["container"]).collect();
        assert_eq!(names, ["exporter", "redis"], "{containers:#}");
        for container in listed {
            assert_eq!(
                (&container["namespace"], &container["pod"]),
                (&json!("shop"), &json!("cache-0"))
            );
        }
        finish(&mut whylat("record -d 1 --pod nosuch"))
            .assert_status(1)
            .explains("no pod with the name or UID nosuch");
    });
}

/// Podman, in folders of its own.
struct Podman<'a> {
    netns: &'a Netns,
    /// The control group above its containers'.
    parent: String,
    rootfs: tempfile::TempDir,
}

impl<'a> Podman<'a> {
    /// `None` where it is not installed, or cannot run a container.
    fn new(netns: &'a Netns) -> Option<Self> {
        let rootfs = tempfile::tempdir().expect("a directory");
        for folder in ["usr", "proc", "sys", "dev", "etc", "tmp", "run", "w"] {
            fs::create_dir(rootfs.path().join(folder)).expect("a folder");
        }
        for link in ["bin", "lib", "lib64"] {
            let to = Path::new("usr").join(link);
            std::os::unix::fs::symlink(to, rootfs.path().join(link)).expect("a link");
        }
        let podman = Self {
            netns,
            parent: format!("/whylat-podman-{}", std::process::id()),
            rootfs,
        };
        let mut tried = podman.run(&["--rm", "--name", "whylat-tried"]);
        match tried.arg("/usr/bin/true").output() {
            Ok(output) if output.status.success() => Some(podman),
            Ok(output) => {
                println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(why) => {
                println!("skipped: podman: {why}");
                None
            }
        }
    }

    /// `podman run`, with what a host without privileges over limits and controllers allows.
    fn run(&self, options: &[&str]) -> Command {
        let mut command = self.command("run");
        command.args(["--privileged", "--pids-limit=0", "--network=host"]);
        command.arg(format!("--cgroup-parent={}", self.parent));
        command.args([
            "--ulimit",
            "nofile=1024:1024",
            "--ulimit",
            "nproc=4096:4096",
        ]);
        let programs = Path::new(program()).parent().expect("a folder");
        command.args(["-v", "/usr:/usr:ro", "-v"]);
        command.arg(format!("{}:/w:ro", programs.display()));
        command
            .args(options)
            .arg("--rootfs")
            .arg(self.rootfs.path());
        command
    }

    /// `podman WORD`, in the network namespace.
    fn command(&self, word: &str) -> Command {
        let mut command = self.netns.command("podman");
        command.args([
            "--cgroup-manager=cgroupfs",
            "--storage-driver=vfs",
            "--events-backend=none",
        ]);
        command.arg(word);
        command
    }
}

impl Drop for Podman<'_> {
    /// All that is in this storage is this test's.
    fn drop(&mut self) {
        // The control group shows whether it worked; there is none where Podman does not run.
        let _ = self.command("rm").args(["-f", "-a", "-t", "0"]).output();
        let group = Path::new("/sys/fs/cgroup").join(&self.parent[1..]);
        until("podman's control group empty", || {
            // busy until the last process is reaped
            let _ = fs::remove_dir(group.join("conmon"));
            let removed = fs::remove_dir(&group);
            (removed.is_ok() || !group.exists()).then_some(())
        });
    }
}

#[test]
fn podman_container_and_exec() {
    if !root() {
        return;
    }
    without_containers(|| {
        // whichever way the host has its trees: in here there is the one
        while umount2("/sys/fs/cgroup", MntFlags::MNT_DETACH).is_ok() {}
        mount_on("/sys/fs/cgroup", "cgroup2", MsFlags::empty());
        let netns = Netns::new().expect("a namespace");
        let Some(podman) = Podman::new(&netns) else {
            return;
        };
        let in_container = |mut command: Command, port: u16| {
            command.arg(format!("/w/{}", name_of(program())));
            command.args(format!("lab workload {}", client_words(port)).split_whitespace());
            LabProcess::start(command).expect("start the client")
        };
        let started = ["-i", "--rm", "--name", NAME];
        let pair = Pair::start_as(&netns, |port| in_container(podman.run(&started), port));
        let recorder = Recorder::start(&format!("--container {NAME}"));
        let (mut pair, mut other) = (pair, Pair::start(&netns));
        let mut executed = Pair::start_as(&netns, |port| {
            let mut exec = podman.command("exec");
            exec.args(["-i", NAME]);
            in_container(exec, port)
        });
        executed.go();
        let executed = executed.finish();
        other.go();
        pair.go();
        let (ends, others) = (pair.finish(), other.finish());
        let report = recorder.stop();
        for client in [ends.client, executed.client] {
            assert_eq!(report.by_cookie(client)["chosen"], "target");
        }
        let cookies = report.connections().iter().map(|it| it["id"].clone());
        let seen: Vec<_> = cookies.collect();
        assert!(!seen.contains(&json!(others.client)), "{seen:?}");
    });
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
