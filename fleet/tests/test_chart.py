"""The Helm chart, by Helm itself: its output is the kept manifest, and Kubernetes and the agent take it for all values.

Helm comes with `make fleet-check`; without it these tests are skipped.
"""

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "packaging/kubernetes"
CHART = KUBERNETES / "chart"
HELM = ROOT / "tests/kubernetes/node_modules/.bin/helm"
WHYLAT = ROOT / "target/release/whylat"

pytestmark = pytest.mark.skipif(not HELM.exists(), reason="make fleet-check installs Helm")

COLLECTOR = {"otlp": {"endpoint": "http://collector.observability:4317", "protocol": "grpc"}}


def run(*arguments: str, values: dict[str, Any] | None = None, home: Path) -> subprocess.CompletedProcess[str]:
    """Runs Helm with a home of its own."""
    own = {f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    text = json.dumps(values or {})
    command = [str(HELM), *arguments, "--namespace", "whylat", "--values", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, env={**os.environ, **own}, check=False)


def rendered(values: dict[str, Any], home: Path) -> list[dict[str, Any]]:
    """Returns the objects that the chart makes of values."""
    found = run("template", "whylat-agent", str(CHART), values=values, home=home)
    assert found.returncode == 0, found.stderr
    return list(yaml.safe_load_all(found.stdout))


def one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Returns the object of this kind."""
    (found,) = [it for it in objects if it["kind"] == kind]
    return found


def pod_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the specification of the agent's pods."""
    pod: dict[str, Any] = one(objects, "DaemonSet")["spec"]["template"]["spec"]
    return pod


def config_of(objects: list[dict[str, Any]]) -> str:
    """Returns the agent's configuration."""
    text: str = one(objects, "ConfigMap")["data"]["agent.toml"]
    return text


def test_kept_manifest_is_the_output_of_the_chart(tmp_path: Path) -> None:
    values = yaml.safe_load((KUBERNETES / "plain.yaml").read_text())
    found = run("template", "whylat-agent", str(CHART), values=values, home=tmp_path)
    assert found.returncode == 0, found.stderr
    kept = (KUBERNETES / "agent.yaml").read_text()
    comment, _, objects = kept.partition("---\n")
    assert all(line.startswith("#") for line in comment.splitlines())
    assert "---\n" + objects == found.stdout, "hint: make chart"


def test_helm_finds_no_fault(tmp_path: Path) -> None:
    found = run("lint", "--strict", str(CHART), values=COLLECTOR, home=tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr


VARIANTS: list[dict[str, Any]] = [
    COLLECTOR,
    COLLECTOR | {"runtime": "k3s", "runtimeSocket": True, "namespace": {"create": True}},
    COLLECTOR | {"runtime": "cri-o", "runtimeSocket": True, "hostPID": False, "health": {"port": 0}},
    COLLECTOR
    | {
        "runtime": "none",
        "metrics": {"listen": "0.0.0.0:9464", "names": ["node.example"]},
        "networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"app": "prometheus"}}}]},
        "ship": {"target": "s3://bucket/whylat", "spoolMaxBytes": 1 << 40},
        "watch": {"detail": "stats", "pollMs": 1000, "cpuLow": 0.001, "cpuHigh": 0.01, "intervalS": 10},
        "applications": [
            {"name": 'a "quoted" <name>', "workload": "shop/*", "ports": [80, 443], "delay_sensitive": True},
            {"name": "regular", "command": r"^/usr/bin/java .*-jar shop\.jar"},
        ],
        "imagePullSecrets": [{"name": "registry"}],
        "image": {"repository": "r.example/w", "tag": "dev"},
        "podAnnotations": {"a.example/b": "c"},
        "podLabels": {"team": "net"},
        "affinity": {"nodeAffinity": {}},
        "tolerations": [],
        "priorityClassName": "",
    },
]


@pytest.mark.parametrize("values", VARIANTS)
def test_kubernetes_takes_all_objects(values: dict[str, Any], tmp_path: Path) -> None:
    for found in rendered(values, tmp_path):
        for version in ("1.29", "1.33"):
            kubernetes_validate.validate(found, version, strict=True)


@pytest.mark.parametrize("values", VARIANTS)
def test_agent_takes_its_configuration(values: dict[str, Any], tmp_path: Path) -> None:
    text = config_of(rendered(values, tmp_path))
    config = tomllib.loads(text)
    assert config.get("application", []) == values.get("applications", [])
    if not WHYLAT.exists():
        pytest.skip("make build makes the agent")
    file = tmp_path / "agent.toml"
    file.write_text(text)
    found = subprocess.run([WHYLAT, "agent", "--check", "--config", file], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_pod_has_what_its_values_ask_for_and_no_more(tmp_path: Path) -> None:
    plain = pod_of(rendered(COLLECTOR, tmp_path))
    mounts = {it["mountPath"] for it in plain["containers"][0]["volumeMounts"]}
    assert mounts == {"/etc/whylat", "/sys/kernel/btf", "/run/containerd/io.containerd.runtime.v2.task"}
    assert plain["hostPID"]
    assert not plain["automountServiceAccountToken"]
    assert "hostPID" not in pod_of(rendered(COLLECTOR | {"hostPID": False}, tmp_path))
    # its files have the labels: the socket is not needed
    cri_o = pod_of(rendered(COLLECTOR | {"runtime": "cri-o", "runtimeSocket": True}, tmp_path))
    assert not any("sock" in it["name"] for it in cri_o["volumes"])


@pytest.mark.parametrize(
    ("runtime", "folder"),
    [
        ("containerd", "/run/containerd"),
        ("k3s", "/run/k3s/containerd"),
        ("microk8s", "/var/snap/microk8s/common/run"),
    ],
)
def test_folder_of_the_socket_has_the_files_of_the_runtime(runtime: str, folder: str, tmp_path: Path) -> None:
    pod = pod_of(rendered(COLLECTOR | {"runtime": runtime, "runtimeSocket": True}, tmp_path))
    mounts = [it for it in pod["containers"][0]["volumeMounts"] if it["name"].startswith("runtime")]
    (mount,) = mounts
    assert mount["mountPath"] == folder
    # a runtime that starts again is seen; connect(2) to a socket needs no file system that can be written
    assert (mount["readOnly"], mount["mountPropagation"]) == (True, "HostToContainer")
    (volume,) = (it for it in pod["volumes"] if it["name"] == mount["name"])
    # a node without this runtime is watched, too
    assert volume["hostPath"] == {"path": folder, "type": "DirectoryOrCreate"}


def test_probes_ask_where_the_agent_listens(tmp_path: Path) -> None:
    objects = rendered(COLLECTOR | {"health": {"port": 9999}}, tmp_path)
    (container,) = pod_of(objects)["containers"]
    listen = tomllib.loads(config_of(objects))["health"]["listen"]
    for probe in ("startupProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert f"{asked['host']}:{asked['port']}" == listen
        assert asked["path"] == "/healthz"
    (without,) = pod_of(rendered(COLLECTOR | {"health": {"port": 0}}, tmp_path))["containers"]
    assert not any(key.endswith("Probe") for key in without)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "ship.target or otlp.endpoint must be given"),
        (COLLECTOR | {"runtime": "podman"}, "runtime"),
        (COLLECTOR | {"watch": {"intervalS": 7}}, "intervalS"),
        (COLLECTOR | {"hostPid": False}, "hostPid"),
        (COLLECTOR | {"applications": [{"name": "a", "nmae": "b"}]}, "nmae"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], why: str, tmp_path: Path) -> None:
    found = run("template", "whylat-agent", str(CHART), values=values, home=tmp_path)
    assert found.returncode != 0
    assert why in found.stderr


def test_values_explain_each_key() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert values.keys() | {"global"} == schema.keys()
    version = (ROOT / "Cargo.toml").read_text().split('version = "', 1)[1].split('"', 1)[0]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
