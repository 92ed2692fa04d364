"""Checks compose.yaml of the demo: by keys of the Compose specification, and by what its services name.

    compose.py FOLDER
"""

import re
import sys
from pathlib import Path

try:
    import yaml
except ImportError:
    print("skipped: Python has no yaml; apt-get install python3-yaml")
    sys.exit(0)

# github.com/compose-spec/compose-spec, schema/compose-spec.json: those that the demo may use
TOP = {"name", "services"}
SERVICE = {"image", "command", "environment", "volumes", "depends_on", "ports", "profiles"}

folder = Path(sys.argv[1])
file = yaml.safe_load((folder / "compose.yaml").read_text())
assert set(file) <= TOP, set(file) - TOP
assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", file["name"]), file["name"]
services = file["services"]
roles = set(re.findall(r'case \["(\w+)"', (folder / "shop.py").read_text()))
for name, service in services.items():
    assert set(service) <= SERVICE, (name, set(service) - SERVICE)
    assert re.fullmatch(r"[a-z]+:[\w.-]+", service["image"]), service["image"]
    assert set(service.get("depends_on", [])) <= set(services), name
    for mount in service.get("volumes", []):
        source, target, mode = mount.split(":")
        assert (folder / source).is_file() and target.startswith("/") and mode == "ro", mount
    for variable, value in service.get("environment", {}).items():
        assert isinstance(value, str), (name, variable, value)
        if re.fullmatch(r"[a-z]+:\d+", value):
            assert value.split(":")[0] in services, (name, variable, value)
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), f"{name} is open to others: {port}"
    command = service.get("command", [])
    if "/shop.py" in command:
        assert command[2] in roles, command
assert roles == {service["command"][2] for service in services.values() if "/shop.py" in service.get("command", [])}
print(f"{len(services)} services")
