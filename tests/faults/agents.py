"""`whylat agent` in a namespace: over a directory with its configuration and spool, and what others then read of it."""

import http.client
import json
import os
import subprocess

from harness import HERE, LONGEST, ROOT, WHYLAT, Wrong, bind_to_thread, demand, finish, until

# Has DuckDB, as the fleet's own tests do.
PYTHON = ROOT / "fleet" / ".venv" / "bin" / "python"

TOKEN = "3b1d"
PORT = 9464

# Series of what was lost or given up (docs/fleet/agent.md).
LOST = "whylat_agent_lost_records_total"
LOSSES = (LOST, "whylat_ship_dropped_", "whylat_ship_late_rows_total")


def configure(place, name, dataset, interval_s=60, listen=""):
    """Writes the configuration of an agent that watches its own namespace."""
    (place / "agent.toml").write_text(
        f'[host]\nname = "{name}"\n[watch]\nnetns = "own"\ninterval_s = {interval_s}\n'
        f'[ship]\ntarget = "{dataset}"\nspool = "{place}/spool"\n[metrics]\nlisten = "{listen}"\n'
    )


class Agent:
    """An agent from when everything is watched."""

    def __init__(self, netns, place, extra=None):
        self.log = place / "log"
        ready = place / "ready"
        ready.unlink(missing_ok=True)
        command = [WHYLAT, "agent", "--config", place / "agent.toml", "--ready-file", ready]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                bind_to_thread(command, netns),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "WHYLAT_METRICS_TOKEN": TOKEN},
                preexec_fn=extra,
            )
        until("the agent ready", lambda: ready.exists() or self.demand_alive())

    def demand_alive(self):
        """It has not ended."""
        if self.process.poll() is not None:
            output = self.log.read_text(errors="replace")
            raise Wrong(f"an agent ended with {self.process.returncode}: {output[-800:]}")

    def signal(self, number):
        """Signals it."""
        self.process.send_signal(number)

    def wait(self, longest_s=LONGEST):
        """Waits for its end; gives its exit code, which is below zero when a signal ended it."""
        return self.process.wait(timeout=longest_s)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def scrape():
    """Returns the series of the agent in this namespace, as Prometheus reads them."""
    asking = http.client.HTTPConnection("127.0.0.1", PORT, timeout=LONGEST)
    try:
        asking.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = asking.getresponse()
        page = answer.read().decode()
    finally:
        asking.close()
    demand(answer.status == 200, f"/metrics answered {answer.status}: {page[:300]}")
    samples = [line.rsplit(" ", 1) for line in page.splitlines() if line and not line.startswith("#")]
    return {series: float(value) for series, value in samples}


def losses(page):
    """Of these, what counts losses."""
    found = {series: value for series, value in page.items() if series.startswith(LOSSES)}
    demand(LOST in found, f"no {LOST} among {sorted(page)}")
    return found


def dataset_rows(path, table, host, columns):
    """Rows of a dataset's table, in order of their start."""
    demand(PYTHON.exists(), f"there is no {PYTHON}, which has DuckDB\nhint: make fleet/.venv/dev")
    rows = json.loads(finish(PYTHON, HERE / "dataset.py", path, table, host, *columns))
    return [tuple(row) for row in rows]
