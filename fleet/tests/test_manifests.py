"""The agent's manifests for Kubernetes: its own schemas take them, and they give what the systemd unit gives."""

import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

PACKAGING = Path(__file__).parents[2] / "packaging"
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((PACKAGING / "kubernetes/agent.yaml").read_text()))


def one(kind: str) -> dict[str, Any]:
    """Returns the object of this kind."""
    (found,) = [it for it in OBJECTS if it["kind"] == kind]
    return found


@pytest.mark.parametrize("version", ["1.29", "1.33"])
def test_schemas_of_kubernetes_take_all_objects(version: str) -> None:
    for found in OBJECTS:
        kubernetes_validate.validate(found, version, strict=True)


def test_agent_has_the_capabilities_of_its_unit() -> None:
    unit = (PACKAGING / "whylat-agent.service").read_text().splitlines()
    (line,) = [it for it in unit if it.startswith("CapabilityBoundingSet=")]
    of_unit = [it.removeprefix("CAP_") for it in line.split("=")[1].split()]
    (container,) = one("DaemonSet")["spec"]["template"]["spec"]["containers"]
    context = container["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": of_unit}
    assert not context["privileged"]
    assert not context["allowPrivilegeEscalation"]
    assert context["readOnlyRootFilesystem"]


def test_agent_has_the_limits_of_its_unit() -> None:
    unit = dict(
        line.split("=", 1) for line in (PACKAGING / "whylat-agent.service").read_text().splitlines() if "=" in line
    )
    (container,) = one("DaemonSet")["spec"]["template"]["spec"]["containers"]
    percent = int(unit["CPUQuota"].removesuffix("%"))
    assert container["resources"]["limits"] == {"cpu": f"{10 * percent}m", "memory": f"{unit['MemoryMax']}i"}


def test_volumes_are_mounted_and_configuration_is_known() -> None:
    pod = one("DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {it["name"]: it["mountPath"] for it in container["volumeMounts"]}
    volumes = {it["name"]: it for it in pod["volumes"]}
    assert mounts.keys() == volumes.keys()
    # the agent looks where the node has them
    for name in ["runtime-0", "btf"]:
        assert mounts[name] == volumes[name]["hostPath"]["path"]
    config = tomllib.loads(one("ConfigMap")["data"]["agent.toml"])
    example = (PACKAGING / "agent.toml").read_text().replace("\n#", "\n")
    assert config["ship"]["spool"].startswith(mounts["spool"])
    assert all(f"{key} = " in example for rule in config["application"] for key in rule)
