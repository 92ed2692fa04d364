//! Files of each runtime, as it writes them, cut to what is read; and control groups of each driver.

use std::fs;
use std::path::PathBuf;
use std::thread::JoinHandle;

use tempfile::TempDir;

use super::*;

const ID: &str = "3f4e5a6b7c8d9e0f112233445566778899aabbccddeeff00112233445566778f";
const OTHER: &str = "3f4e99990000000000000000000000000000000000000000000000000000000a";

/// A host's files.
pub(in super::super) struct Host(TempDir);

impl Host {
    /// Makes a host with an empty root directory.
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    /// Makes a host with a pod of containerd's; returns also the control groups of its process.
    pub(in super::super) fn with_pod(name: &str) -> (Self, String) {
        let host = Self::new();
        let config = REDIS_FILE.replace("cache-0", name);
        let group = format!("{}/{ID}", pod_path());
        host.task(ID, &config, 41, &group);
        (host, format!("0::{group}\n"))
    }

    /// Returns where a path of the host is.
    pub(in super::super) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file below the root directory.
    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
        self
    }

    /// Returns a process with these control groups.
    fn process(&self, pid: u32, cgroup: &str) -> &Self {
        self.write(&format!("proc/{pid}/cgroup"), cgroup)
    }

    /// Adds a container of Docker.
    fn docker(&self, id: &str, name: &str, pid: u32) -> &Self {
        let state = format!(r#"{{"Running":{},"Pid":{pid},"ExitCode":0}}"#, pid != 0);
        let text =
            format!(r#"{{"State":{state},"ID":"{id}","Name":"/{name}","Driver":"overlay2"}}"#);
        self.write(
            &format!("var/lib/docker/containers/{id}/config.v2.json"),
            &text,
        )
    }

    /// Adds a container of containerd.
    fn containerd(&self, namespace: &str, id: &str, annotations: &str, pid: u32) -> &Self {
        let task = format!("run/containerd/io.containerd.runtime.v2.task/{namespace}/{id}");
        let config = format!(r#"{{"ociVersion":"1.1.0","annotations":{annotations}}}"#);
        self.write(&format!("{task}/config.json"), &config)
            .write(&format!("{task}/init.pid"), &pid.to_string())
    }

    /// Adds a container of CRI-O or Podman.
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

/// Makes the expected control group; ID means the container's id.
fn group(path: &str) -> Members {
    Members::Cgroup(path.replace("ID", ID))
}

#[test]
fn docker_container_is_found_by_name_and_id_with_either_driver() {
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
fn dockers_data_root_setting_is_used() {
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
fn docker_container_is_listed_once() {
    let host = Host::new();
    host.docker(ID, "redis", 41)
        .containerd("moby", ID, "{}", 41)
        .process(41, &format!("0::/docker/{ID}\n"));
    host.assert_found(&ID[..4], Runtime::Docker, group("/docker/ID"));
}

#[test]
fn podman_container_is_found_by_its_storage() {
    let host = Host::new();
    let path = "/machine.slice/libpod-ID.scope";
    host.storage(ID, r#"["web"]"#, "{}", 41)
        .process(41, &format!("0::{}/container\n", path.replace("ID", ID)))
        .process(40, &format!("0::/machine.slice/libpod-conmon-{ID}.scope\n"));
    host.assert_found("web", Runtime::Podman, group(path));
}

#[test]
fn podman_container_of_a_user_is_found() {
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
fn cri_o_container_is_found_by_container_and_pod_name() {
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
fn containerd_container_is_found_by_names_of_nerdctl_kubernetes_and_ctr() {
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
fn container_without_v2_control_group_gives_its_processes() {
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
fn control_group_alone_identifies_a_container() {
    let host = Host::new();
    let path = "/system.slice/docker-ID.scope";
    host.process(41, &format!("0::{}\n", path.replace("ID", ID)));
    host.assert_found(&ID[..12], Runtime::Unknown, group(path));
}

#[test]
fn error_lists_running_containers_if_the_name_fits_none_or_several() {
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
fn reused_process_id_is_no_container() {
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

/// Files that containerd 1.6.20 wrote of a pod with one container, which calls of CRI made (docs/kubernetes.md);
/// without mounts, capabilities and limits.
const SANDBOX_FILE: &str = include_str!("containerd-1.6.20/sandbox.json");
const REDIS_FILE: &str = include_str!("containerd-1.6.20/redis.json");
const UID: &str = "7d3c1f2e-5a64-4b1c-9c37-0f1e2d3c4b5a";
const OTHER_UID: &str = "11111111-2222-3333-4444-555555555555";

impl Host {
    /// Adds a task of containerd with this `config.json`, in a control group.
    fn task(&self, id: &str, config: &str, pid: u32, group: &str) -> &Self {
        let task = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}");
        self.write(&format!("{task}/config.json"), config)
            .write(&format!("{task}/init.pid"), &pid.to_string())
            .process(pid, &format!("0::{group}\n"))
    }

    /// Adds the pod's process, below a control group of its own.
    fn pod(&self, group: &str) -> &Self {
        self.task(OTHER, SANDBOX_FILE, 40, &format!("{group}/{OTHER}"))
            .task(ID, REDIS_FILE, 41, &format!("{group}/{ID}"))
    }

    fn find_pod(&self, wanted: &str) -> Result<(Pod, Vec<Container>, Members), PodError> {
        find_pod(self.0.path(), wanted)
    }

    /// Returns pod and container of a process: `NAMESPACE/POD CONTAINER`.
    fn place(&self, groups: &str) -> Option<String> {
        let names = ContainerNames::new(self.0.path().to_owned());
        names.find(groups).map(|place| {
            let pod = place.pod.map(|pod| pod.to_string()).unwrap_or_default();
            format!("{pod} {}", place.container.unwrap_or_default())
        })
    }
}

/// Answers once on containerd's socket: the sandbox of the pod has this name and these labels.
pub(in super::super) fn serve_pod(
    socket: &Path,
    name: &str,
    labels: &[(&str, &str)],
) -> JoinHandle<()> {
    let answer = cri::tests::response(vec![cri::tests::sandbox(SANDBOX_ID, name, labels)]);
    cri::tests::serve_once(socket, answer, Some("0"))
}

/// Returns the path of the pod's control group.
fn pod_path() -> String {
    format!("/kubepods/burstable/pod{UID}")
}

#[test]
fn containerd_pod_is_found_by_name_namespace_and_uid() {
    let host = Host::new();
    let group = pod_path();
    host.pod(&group).process(57, &format!("0::{group}/{ID}\n"));
    for wanted in ["cache-0", "shop/cache-0", UID] {
        let (pod, containers, members) = host.find_pod(wanted).expect("one");
        assert_eq!(
            (pod.to_string().as_str(), containers.len()),
            ("shop/cache-0", 2)
        );
        assert_eq!(members, Members::Cgroup(group.clone()));
    }
    for wanted in ["redis", "cache-0/redis", "shop/cache-0/redis"] {
        let members = Members::Cgroup(format!("{group}/{ID}"));
        host.assert_found(wanted, Runtime::Containerd, members);
    }
    let place = |id: &str| host.place(&format!("0::{group}/{id}\n"));
    assert_eq!(place(ID).as_deref(), Some("shop/cache-0 redis"));
    assert_eq!(place(OTHER).as_deref(), Some("shop/cache-0 "));
    assert_eq!(place(&"a".repeat(64)), None);
    assert_eq!(host.place("0::/system.slice/cron.service\n"), None);
    // only the v1 trees have containers' groups
    let v1 = format!("4:pids:{group}/{ID}\n0::/\n");
    assert_eq!(host.place(&v1).as_deref(), Some("shop/cache-0 redis"));
}

#[test]
fn pod_without_own_control_group_gives_its_processes() {
    let host = Host::new();
    host.pod("/k8s.io")
        .process(57, &format!("0::/k8s.io/{ID}\n"))
        .process(58, "0::/\n");
    let (_, _, members) = host.find_pod("cache-0").expect("one");
    assert_eq!(members, Members::Processes(vec![40, 41, 57]));
}

/// So it is where whylat has a control group namespace of its own, as in a pod.
#[test]
fn pod_outside_the_cgroup_namespace_gives_its_processes() {
    let host = Host::new();
    host.pod(&format!("/../pod{UID}"));
    let (_, _, members) = host.find_pod("cache-0").expect("one");
    assert_eq!(members, Members::Processes(vec![40, 41]));
    let place = host.place(&format!("0::/../pod{UID}/{ID}\n"));
    assert_eq!(place.as_deref(), Some("shop/cache-0 redis"));
}

#[test]
fn pods_of_cri_o_and_cri_dockerd_are_found() {
    let digits = UID.replace('-', "_");
    let slice = format!("/kubepods.slice/kubepods-pod{digits}.slice");
    let labels = format!(
        r#""io.kubernetes.container.name":"redis","io.kubernetes.pod.name":"cache-0",
           "io.kubernetes.pod.namespace":"shop","io.kubernetes.pod.uid":"{UID}""#
    );
    let cri_o = format!(r#"{{"io.kubernetes.cri-o.Name":"k8s_redis_cache-0_shop",{labels}}}"#);
    let host = Host::new();
    let group = format!("{slice}/crio-{ID}.scope");
    host.storage(ID, "[]", &cri_o, 41)
        .process(41, &format!("0::{group}\n"));
    let (pod, _, members) = host.find_pod("shop/cache-0").expect("one");
    assert_eq!(pod.uid, Some(UID.replace('-', "")));
    assert_eq!(members, Members::Cgroup(slice.clone()));
    assert_eq!(
        host.place(&format!("0::{group}\n")).as_deref(),
        Some("shop/cache-0 redis")
    );

    let host = Host::new();
    let group = format!("{slice}/docker-{ID}.scope");
    let config = format!(
        r#"{{"State":{{"Pid":41}},"ID":"{ID}","Name":"/k8s_redis_cache-0_shop_x_0","Config":{{"Labels":{{{labels}}}}}}}"#
    );
    host.write(
        &format!("var/lib/docker/containers/{ID}/config.v2.json"),
        &config,
    )
    .process(41, &format!("0::{group}\n"));
    assert_eq!(
        host.find_pod("cache-0").expect("one").2,
        Members::Cgroup(slice)
    );
    assert_eq!(
        host.place(&format!("0::{group}\n")).as_deref(),
        Some("shop/cache-0 redis")
    );
}

/// `KIND NAME, SOURCE` of a process in that pod of containerd's.
fn workload(host: &Host, groups: &str) -> Option<String> {
    let names = ContainerNames::new(host.0.path().to_owned());
    let place = names.find(groups)?;
    let found = place.workload?;
    Some(format!("{} {}, {}", found.kind, found.name, found.source))
}

/// Id of the sandbox in `containerd-1.6.20/redis.json`.
const SANDBOX_ID: &str = "ddcd290f3c71b4c647fbd3e9f6fc9ec1df4ff90c53000561d7529c5406f8d3e3";

#[test]
fn labels_of_containerd_s_socket_show_the_workload() {
    let labels = [
        ("statefulset.kubernetes.io/pod-name", "cache-0"),
        ("controller-revision-hash", "cache-6d4cf56db6"),
        ("app", "cache"),
    ];
    for (id, pod, expected) in [
        (SANDBOX_ID, "cache-0", Some("StatefulSet cache, labels")),
        // of another sandbox, and of another pod than the files say
        (OTHER, "cache-0", None),
        (SANDBOX_ID, "cache-1", None),
    ] {
        let host = Host::new();
        host.pod(&pod_path());
        let socket = host.0.path().join("run/containerd/containerd.sock");
        let answer = cri::tests::response(vec![cri::tests::sandbox(id, pod, &labels)]);
        let server = cri::tests::serve_once(&socket, answer, Some("0"));
        let found = workload(&host, &format!("0::{}/{ID}\n", pod_path()));
        server.join().expect("served");
        assert_eq!(found.as_deref(), expected, "{id} {pod}");
    }
}

#[test]
fn name_of_the_pod_shows_a_deployment_where_no_labels_are_known() {
    let (host, groups) = Host::with_pod("web-6d4cf56db6-x2k8p");
    let found = workload(&host, &groups);
    assert_eq!(found.as_deref(), Some("Deployment web, pod_name"));
    // the control group is of another pod
    let other = format!("0::/kubepods/pod{OTHER_UID}/{ID}\n");
    assert_eq!(workload(&host, &other), None);
}

#[test]
fn labels_in_the_files_of_a_sandbox_show_the_workload() {
    let name = "web-6d4cf56db6-x2k8p";
    let groups = format!("0::/kubepods/pod{UID}/{ID}\n");
    let of_pod = format!(
        r#""io.kubernetes.pod.name":"{name}","io.kubernetes.pod.namespace":"shop","io.kubernetes.pod.uid":"{UID}""#
    );
    let docker = |id: &str, labels: &str, pid: u32| {
        format!(
            r#"{{"State":{{"Pid":{pid}}},"ID":"{id}","Name":"/k8s","Config":{{"Labels":{{{of_pod},{labels}}}}}}}"#
        )
    };
    for (label, expected) in [
        ("6d4cf56db6", Some("Deployment web, labels")),
        // labels are known, and they show no Deployment
        ("5d69b7cfd9", None),
    ] {
        let host = Host::new();
        let file = |id: &str| format!("var/lib/docker/containers/{id}/config.v2.json");
        let sandbox =
            format!(r#""io.kubernetes.docker.type":"podsandbox","pod-template-hash":"{label}""#);
        let container = format!(
            r#""io.kubernetes.container.name":"web","io.kubernetes.docker.type":"container","io.kubernetes.sandbox.id":"{OTHER}""#
        );
        host.write(&file(OTHER), &docker(OTHER, &sandbox, 40))
            .write(&file(ID), &docker(ID, &container, 41))
            .process(41, &groups);
        assert_eq!(workload(&host, &groups).as_deref(), expected, "docker");

        let host = Host::new();
        let crio = |id: &str, kind: &str, labels: &str| {
            format!(
                r#"{{{of_pod},"io.kubernetes.cri-o.Name":"k8s_{id}","io.kubernetes.cri-o.ContainerType":"{kind}",
                    "io.kubernetes.cri-o.SandboxID":"{OTHER}","io.kubernetes.cri-o.Labels":"{labels}"}}"#
            )
        };
        let labels = format!(r#"{{\"pod-template-hash\":\"{label}\"}}"#);
        host.storage(OTHER, "[]", &crio(OTHER, "sandbox", &labels), 40)
            .storage(ID, "[]", &crio(ID, "container", "{}"), 41)
            .process(41, &groups);
        assert_eq!(workload(&host, &groups).as_deref(), expected, "CRI-O");
    }
}

#[test]
fn container_outside_a_pod_is_named() {
    let host = Host::new();
    host.docker(ID, "redis", 41)
        .storage(OTHER, r#"["web"]"#, "{}", 42);
    assert_eq!(
        host.place(&format!("0::/docker/{ID}\n")).as_deref(),
        Some(" redis")
    );
    assert_eq!(
        host.place(&format!("0::/m/libpod-{OTHER}.scope/x\n"))
            .as_deref(),
        Some(" web")
    );
}

#[test]
fn container_that_begins_later_is_named() {
    let host = Host::new();
    let names = ContainerNames::new(host.0.path().to_owned());
    host.pod(&pod_path());
    let place = names
        .find(&format!("0::{}/{ID}\n", pod_path()))
        .expect("known");
    assert_eq!(place.container.as_deref(), Some("redis"));
}

#[test]
fn equal_pod_names_need_the_namespace() {
    let host = Host::new();
    let second = "e".repeat(64);
    let config = REDIS_FILE
        .replace("\"shop\"", "\"test\"")
        .replace(UID, OTHER_UID);
    let group = format!("/kubepods/pod{OTHER_UID}/{second}");
    host.pod(&pod_path()).task(&second, &config, 43, &group);
    let message = host.find_pod("cache-0").expect_err("two").to_string();
    assert!(
        message.starts_with("cache-0 may be any of 2 pods\nhint: "),
        "{message}"
    );
    assert!(
        message.contains("shop/cache-0 (7d3c1f2e") && message.contains("test/cache-0 (1111"),
        "{message}"
    );
    assert_eq!(host.find_pod("test/cache-0").expect("one").1.len(), 1);
    let message = host.find("redis").expect_err("two").to_string();
    assert!(
        message.contains("shop/cache-0/redis (containerd, "),
        "{message}"
    );
    let message = host.find_pod("cache-1").expect_err("none").to_string();
    assert!(
        message.contains("\nhint: these run: shop/cache-0 ("),
        "{message}"
    );
    let message = Host::new().find_pod("x").expect_err("none").to_string();
    assert!(message.contains("\nhint: no pod was found"), "{message}");
}

/// A file that names another pod than the control group is not believed, nor a name that Kubernetes gives to nothing.
#[test]
fn contradicting_files_name_no_pod() {
    let other_uid = REDIS_FILE.replace(UID, OTHER_UID);
    let escape = REDIS_FILE.replace("cache-0", "cache\\u001b[2J");
    let long = REDIS_FILE.replace("\"shop\"", &format!("\"{}\"", "s".repeat(64)));
    let path = REDIS_FILE.replace("cache-0", "../cache-0");
    let cut = REDIS_FILE[..REDIS_FILE.len() / 2].to_owned();
    let huge = " ".repeat(17 << 20) + REDIS_FILE;
    let deep = "[".repeat(1 << 20);
    for config in [
        other_uid,
        escape,
        long,
        path,
        cut,
        huge,
        deep,
        String::new(),
    ] {
        let host = Host::new();
        let group = format!("{}/{ID}", pod_path());
        host.task(ID, &config, 41, &group);
        let begin = &config[..config.len().min(40)];
        assert!(host.find_pod("cache-0").is_err(), "{begin}");
        let place = host.place(&format!("0::{group}\n")).unwrap_or_default();
        assert!(
            place.is_empty() || place.starts_with(' '),
            "{place}: {begin}"
        );
        host.assert_found(ID, Runtime::Containerd, Members::Cgroup(group));
    }
}

/// A process id of another program is not the pod's: its control group does not have the container's id.
#[test]
fn process_with_another_control_group_is_no_member() {
    let host = Host::new();
    host.task(ID, REDIS_FILE, 41, "/system.slice/sshd.service");
    assert!(host.find_pod("cache-0").is_err());
}

/// Links could lead a recorder of root's to any file, and a FIFO would hold it up for good.
#[test]
fn symbolic_links_and_fifos_are_not_read() {
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("config.json"), REDIS_FILE).expect("written");
    fs::write(outside.path().join("init.pid"), "41").expect("written");
    let group = format!("{}/{ID}", pod_path());
    let tasks = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
    let host = || {
        let host = Host::new();
        host.process(41, &format!("0::{group}\n"));
        fs::create_dir_all(host.0.path().join(tasks)).expect("made");
        host
    };
    let assert_unknown = |host: &Host| {
        assert!(host.find_pod("cache-0").is_err());
        assert_eq!(
            host.place(&format!("0::{group}\n"))
                .unwrap_or_default()
                .trim(),
            ""
        );
    };
    let linked = host();
    let task = linked.0.path().join(tasks).join(ID);
    std::os::unix::fs::symlink(outside.path(), task).expect("linked");
    assert_unknown(&linked);
    let file = host();
    let task = file.0.path().join(tasks).join(ID);
    fs::create_dir(&task).expect("made");
    std::os::unix::fs::symlink(outside.path().join("config.json"), task.join("config.json"))
        .expect("linked");
    fs::write(task.join("init.pid"), "41").expect("written");
    assert_unknown(&file);
    let fifo = host();
    let task = fifo.0.path().join(tasks).join(ID);
    fs::create_dir(&task).expect("made");
    for name in ["config.json", "init.pid"] {
        nix::unistd::mkfifo(&task.join(name), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    }
    assert_unknown(&fifo);
}
