//! Files of each runtime, as it writes them, cut to what is read; and control groups of each driver.

use std::fs;

use tempfile::TempDir;

use super::*;

const ID: &str = "3f4e5a6b7c8d9e0f112233445566778899aabbccddeeff00112233445566778f";
const OTHER: &str = "3f4e99990000000000000000000000000000000000000000000000000000000a";

/// A host's files.
struct Host(TempDir);

impl Host {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
        self
    }

    /// A process with these control groups.
    fn process(&self, pid: u32, cgroup: &str) -> &Self {
        self.write(&format!("proc/{pid}/cgroup"), cgroup)
    }

    fn docker(&self, id: &str, name: &str, pid: u32) -> &Self {
        let state = format!(r#"{{"Running":{},"Pid":{pid},"ExitCode":0}}"#, pid != 0);
        let text =
            format!(r#"{{"State":{state},"ID":"{id}","Name":"/{name}","Driver":"overlay2"}}"#);
        self.write(
            &format!("var/lib/docker/containers/{id}/config.v2.json"),
            &text,
        )
    }

    fn containerd(&self, namespace: &str, id: &str, annotations: &str, pid: u32) -> &Self {
        let task = format!("run/containerd/io.containerd.runtime.v2.task/{namespace}/{id}");
        let config = format!(r#"{{"ociVersion":"1.1.0","annotations":{annotations}}}"#);
        self.write(&format!("{task}/config.json"), &config)
            .write(&format!("{task}/init.pid"), &pid.to_string())
    }

    fn storage(&self, id: &str, names: &str, annotations: &str, pid: u32) -> &Self {
        let listed = format!(r#"[{{"id":"{id}","names":{names},"image":"x","layer":"y"}}]"#);
        let userdata = format!("run/containers/storage/overlay-containers/{id}/userdata");
        let config = format!(r#"{{"annotations":{annotations}}}"#);
        self.write(
            "var/lib/containers/storage/overlay-containers/containers.json",
            &listed,
        )
        .write(&format!("{userdata}/config.json"), &config)
        .write(&format!("{userdata}/pidfile"), &pid.to_string())
    }

    fn find(&self, wanted: &str) -> Result<(Container, Members), ContainerError> {
        find_container(self.0.path(), wanted)
    }

    #[track_caller]
    fn assert_found(&self, wanted: &str, runtime: Runtime, members: Members) {
        let (container, found) = self.find(wanted).expect("one");
        assert_eq!((container.runtime, found), (runtime, members), "{wanted}");
    }
}

fn group(path: &str) -> Members {
    Members::Cgroup(path.replace("ID", ID))
}

#[test]
fn docker_by_name_and_id_and_either_driver() {
    for path in ["/system.slice/docker-ID.scope", "/docker/ID"] {
        let host = Host::new();
        let inner = format!("0::{}/init.scope\n", path.replace("ID", ID));
        host.docker(ID, "redis", 41).process(41, &inner);
        for wanted in ["redis", ID, &ID[..12], "3"] {
            host.assert_found(wanted, Runtime::Docker, group(path));
        }
        assert!(host.find("redi").is_err(), "a name is whole");
    }
}

#[test]
fn data_root_of_docker_is_read() {
    let host = Host::new();
    let config = format!(r#"{{"State":{{"Pid":41}},"ID":"{ID}","Name":"/redis"}}"#);
    host.write("etc/docker/daemon.json", r#"{"data-root":"/srv/docker"}"#)
        .write(
            &format!("srv/docker/containers/{ID}/config.v2.json"),
            &config,
        )
        .process(41, &format!("0::/docker/{ID}\n"));
    host.assert_found("redis", Runtime::Docker, group("/docker/ID"));
}

#[test]
fn dockers_containers_are_not_containerds_too() {
    let host = Host::new();
    host.docker(ID, "redis", 41)
        .containerd("moby", ID, "{}", 41)
        .process(41, &format!("0::/docker/{ID}\n"));
    host.assert_found(&ID[..4], Runtime::Docker, group("/docker/ID"));
}

#[test]
fn podman_by_its_storage() {
    let host = Host::new();
    let path = "/machine.slice/libpod-ID.scope";
    host.storage(ID, r#"["web"]"#, "{}", 41)
        .process(41, &format!("0::{}/container\n", path.replace("ID", ID)))
        .process(40, &format!("0::/machine.slice/libpod-conmon-{ID}.scope\n"));
    host.assert_found("web", Runtime::Podman, group(path));
}

#[test]
fn podman_of_a_user() {
    let host = Host::new();
    let data = "home/ada/.local/share/containers/storage/overlay-containers";
    let run = format!("run/user/1000/containers/overlay-containers/{ID}/userdata/pidfile");
    let path = "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope";
    host.write(
        &format!("{data}/containers.json"),
        &format!(r#"[{{"id":"{ID}","names":["web"]}}]"#),
    )
    .write(&run, "41\n")
    .process(41, &format!("0::{}\n", path.replace("ID", ID)));
    host.assert_found("web", Runtime::Podman, group(path));
}

#[test]
fn cri_o_by_container_and_pod() {
    let host = Host::new();
    let names = r#"["k8s_redis_cache-0_shop_5a5a_0"]"#;
    let annotations = r#"{"io.kubernetes.cri-o.Name":"k8s_redis_cache-0_shop_5a5a_0",
        "io.kubernetes.container.name":"redis","io.kubernetes.pod.name":"cache-0"}"#;
    let path =
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5a5a.slice/crio-ID.scope";
    host.storage(ID, names, annotations, 41)
        .process(41, &format!("0::{}\n", path.replace("ID", ID)))
        .process(40, &format!("0::/system.slice/crio-conmon-{ID}.scope\n"));
    for wanted in ["redis", "cache-0/redis", "k8s_redis_cache-0_shop_5a5a_0"] {
        host.assert_found(wanted, Runtime::CriO, group(path));
    }
}

#[test]
fn containerd_by_what_nerdctl_kubernetes_and_ctr_call_it() {
    let cri = r#"{"io.kubernetes.cri.container-name":"redis","io.kubernetes.cri.sandbox-name":"cache-0"}"#;
    let nerdctl = r#"{"nerdctl/name":"redis"}"#;
    for (namespace, annotations, path, wanted) in [
        (
            "default",
            nerdctl,
            "/system.slice/nerdctl-ID.scope",
            "redis",
        ),
        (
            "k8s.io",
            cri,
            "/kubepods/besteffort/pod5a5a/ID",
            "cache-0/redis",
        ),
        (
            "k8s.io",
            cri,
            "/system.slice/x.service/kubepods-pod5a5a.slice:cri-containerd:ID",
            "redis",
        ),
        ("default", "{}", "/default/ID", ID),
    ] {
        let host = Host::new();
        host.containerd(namespace, ID, annotations, 41)
            .process(41, &format!("0::{}\n", path.replace("ID", ID)));
        host.assert_found(wanted, Runtime::Containerd, group(path));
    }
    let host = Host::new();
    host.containerd("default", "cache", "{}", 41)
        .process(41, "0::/default/cache\n");
    host.assert_found("cache", Runtime::Containerd, group("/default/cache"));
}

#[test]
fn without_the_v2_tree_its_processes_are_recorded() {
    let v1 = |path: &str| {
        let path = path.replace("ID", ID);
        format!("12:pids:{path}\n11:memory:{path}\n1:name=systemd:{path}\n")
    };
    for hybrid in ["", "0::/\n"] {
        let host = Host::new();
        host.docker(ID, "redis", 41)
            .process(41, &(v1("/docker/ID") + hybrid))
            .process(57, &(v1("/docker/ID") + hybrid))
            .process(40, &(v1("/libpod_parent/libpod-conmon-ID") + hybrid))
            .process(58, &(v1("/") + hybrid));
        host.assert_found("redis", Runtime::Docker, Members::Processes(vec![41, 57]));
    }
    // podman run --cgroups=disabled
    let host = Host::new();
    host.storage(ID, r#"["web"]"#, "{}", 41)
        .process(41, "0::/user.slice\n")
        .process(42, "0::/user.slice\n");
    host.assert_found("web", Runtime::Podman, Members::Processes(vec![41]));
}

#[test]
fn a_control_group_is_enough() {
    let host = Host::new();
    let path = "/system.slice/docker-ID.scope";
    host.process(41, &format!("0::{}\n", path.replace("ID", ID)));
    host.assert_found(&ID[..12], Runtime::Unknown, group(path));
}

#[test]
fn what_is_not_one_container_lists_those_that_run() {
    let host = Host::new();
    let none = host.find("redis").expect_err("none").to_string();
    assert!(none.contains("\nhint: no running container"), "{none}");
    host.docker(ID, "redis", 41)
        .docker(OTHER, "web", 42)
        .docker(&"c".repeat(64), "old", 0)
        .process(41, &format!("0::/docker/{ID}\n"))
        .process(42, &format!("0::/docker/{OTHER}\n"));
    let message = host.find("3f4e").expect_err("two").to_string();
    assert!(
        message.starts_with("3f4e may be any of 2 containers\nhint: "),
        "{message}"
    );
    assert!(
        message.contains("redis (docker, 3f4e5a6b7c8d), web (docker, 3f4e99990000)"),
        "{message}"
    );
    let message = host.find("mysql").expect_err("none").to_string();
    assert!(
        message.contains("mysql\nhint: these run: redis (docker"),
        "{message}"
    );
    assert!(!message.contains("old"), "{message}");
    let message = host.find("old").expect_err("it does not run").to_string();
    assert!(
        message.starts_with("the container old (docker, cccccccccccc) does not run\nhint: "),
        "{message}"
    );
    assert!(matches!(
        host.find(""),
        Err(ContainerError::NotFound { .. })
    ));
}

/// A process that took the place of a container's process is not the container's.
#[test]
fn a_process_that_has_gone_is_no_container() {
    for group in [None, Some("0::/system.slice/cron.service\n4:pids:/\n")] {
        let host = Host::new();
        host.docker(ID, "redis", 41);
        group.map(|group| host.process(41, group));
        assert!(matches!(
            host.find("redis"),
            Err(ContainerError::NotRunning(_))
        ));
    }
}
