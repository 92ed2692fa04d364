"""Every number of `summary` against the same counted row by row."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleet_files import BEGIN, BEGIN_NS, BINS, HOSTS, Row

from whylat_fleet.cli import main
from whylat_fleet.dataset import HOUR_NS, SECOND_NS
from whylat_fleet.schema import BIN_NS, PROBLEMS, SIZES
from whylat_fleet.summary import LIMITS, RATE_EDGES, SHARES, SIZE_EDGES


@pytest.fixture(scope="module")
def rows(few: tuple[Path, dict[str, list[Row]]]) -> dict[str, list[Row]]:
    return few[1]


@pytest.fixture(scope="module")
def found(few: tuple[Path, dict[str, list[Row]]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("summary") / "s.json"
    assert main(["summary", str(few[0]), "--from", BEGIN, "--format", "json", "-o", str(out)]) == 3
    answer: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return answer


def lives(rows: dict[str, list[Row]]) -> list[Row]:
    """The latest totals of each connection, two minutes into the next hour at most."""
    latest: dict[int, Row] = {}
    for row in rows["fleet_connections"]:
        if row["time_ns"] < BEGIN_NS + HOUR_NS + 120 * SECOND_NS and row["first_ns"] < BEGIN_NS + HOUR_NS:
            kept = latest.get(row["conn_id"])
            if kept is None or kept["time_ns"] < row["time_ns"]:
                latest[row["conn_id"]] = row
    until: dict[str, int] = defaultdict(int)
    for row in rows["fleet_coverage"]:
        until[row["host"]] = max(until[row["host"]], row["begin_ns"] + row["length_us"] * 1000)
    answer = []
    for row in latest.values():
        life = dict(row)
        if life["closed_ns"] is None and until[life["host"]] > life["time_ns"]:
            _go_on(life, rows["fleet_intervals"], until[life["host"]])
        answer.append(life)
    return answer


def _go_on(life: Row, intervals: list[Row], until_ns: int) -> None:
    """Adds the intervals after the latest totals of an hour that goes on."""
    more = (until_ns - life["time_ns"]) // 1000
    life["watched_us"] += more
    life["no_flag_us"] += more
    for row in intervals:
        if row["conn_id"] == life["conn_id"] and life["time_ns"] < row["begin_ns"] < BEGIN_NS + HOUR_NS:
            limited = row["length_us"] - row["no_flag_us"]
            life["send_buffer_us"] += row["send_buffer_us"]
            life["receiver_window_us"] += row["receiver_window_us"]
            life["congestion_us"] += min(row["fast_retransmit_us"] + row["timeout_us"], limited)
            life["no_flag_us"] -= limited


def test_shares_of_life_are_those_of_table_4(rows: dict[str, list[Row]], found: dict[str, Any]) -> None:
    every = lives(rows)
    alive = [row for row in every if row["watched_us"] > 0]
    assert found["connections"] == len(alive) > 100
    assert found["connections_without_totals"] == len(every) - len(alive) > 0
    assert [line["problem"] for line in found["limited"]] == list(LIMITS)
    for line in found["limited"]:
        column = LIMITS[line["problem"]]
        measured = [row for row in alive if row[column] is not None]
        assert line["measured_connections"] == len(measured)
        for entry, share in zip(line["life_over"], SHARES, strict=True):
            over = [row for row in measured if row[column] > share * row["watched_us"]]
            assert entry == {
                "share": share,
                "connections": len(over),
                "delay_sensitive": sum(row["delay_sensitive"] is True for row in over),
            }
        of_app: dict[str, list[Row]] = defaultdict(list)
        for row in alive:
            if row["app"] is not None:
                of_app[row["app"]].append(row)
        assert found["applications"] == len(of_app)
        for entry in line["applications_over"]:
            over_apps = [
                app
                for app, mine in of_app.items()
                if sum(row[column] or 0 for row in mine)
                > entry["share"] * sum(row["watched_us"] for row in mine if row[column] is not None)
            ]
            assert entry["applications"] == len(over_apps)
            assert entry["delay_sensitive"] == sum(app == "shop" for app in over_apps)
    assert found["limited"][4]["measured_connections"] < len(alive)


def class_of(value: float, edges: tuple[int, ...]) -> int:
    return max((edge for edge in (0, *edges) if value >= edge), default=0)


def sizes(rows: dict[str, list[Row]]) -> dict[str, int]:
    most: dict[str, int] = defaultdict(int)
    for row in rows["fleet_coverage"]:
        most[row["host"]] = max(most[row["host"]], row["connections"])
    return most


def test_connections_of_hosts_and_their_send_buffers(rows: dict[str, list[Row]], found: dict[str, Any]) -> None:
    of_host = sizes(rows)
    counts = Counter(of_host.values())
    assert found["connections_per_host"] == [{"connections": n, "hosts": counts[n]} for n in sorted(counts)]
    parts: dict[int, list[Row]] = defaultdict(list)
    for row in lives(rows):
        if row["watched_us"] > 0:
            parts[class_of(of_host[row["host"]], SIZE_EDGES)].append(row)
    assert [entry["least"] for entry in found["send_buffers_by_connections"]] == sorted(parts)
    for entry in found["send_buffers_by_connections"]:
        mine = parts[entry["least"]]
        assert entry["hosts"] == len({row["host"] for row in mine})
        assert entry["connections"] == len(mine)
        assert entry["limited"] == sum(row["send_buffer_us"] > 0 for row in mine)
        expected = sum(row["send_buffer_us"] for row in mine) / sum(row["watched_us"] for row in mine)
        assert entry["share"] == pytest.approx(expected, rel=1e-12)


def fast(row: Row) -> int:
    """Retransmissions that no timeout began; a timeout may have sent nothing again."""
    return int(max(row["retrans"] - row["timeouts"], 0))


def test_losses_over_time_and_by_rate(rows: dict[str, list[Row]], found: dict[str, Any]) -> None:
    assert found["losses"]["step_s"] == 60
    for number, step in enumerate(found["losses"]["steps"]):
        begin = BEGIN_NS + number * 60 * SECOND_NS
        mine = [row for row in rows["fleet_intervals"] if begin <= row["begin_ns"] < begin + 60 * SECOND_NS]
        known = [row for row in mine if row["timeouts"] is not None]
        watched = {row["host"] for row in rows["fleet_coverage"] if row["begin_ns"] == begin}
        assert (step["begin_ns"], step["hosts"]) == (begin, len(watched))
        assert step["timeouts_per_s"] == pytest.approx(sum(row["timeouts"] for row in known) / 60)
        assert step["fast_per_s"] == pytest.approx(sum(fast(row) for row in known) / 60)
        again = sum(row["retrans"] for row in mine) / sum(row["segs_out"] for row in mine)
        assert step["retransmitted"] == pytest.approx(again)
    parts: dict[int, list[Row]] = defaultdict(list)
    for row in rows["fleet_intervals"]:
        if row["timeouts"] is not None:
            parts[class_of(row["acked_bytes"] * 1e6 / row["length_us"], RATE_EDGES)].append(row)
    assert len(parts) > 4
    assert found["rates"] == [
        {
            "least": least,
            "intervals": len(mine),
            "with_loss": sum(row["retrans"] > 0 or row["timeouts"] > 0 for row in mine),
            "more_timeouts": sum(row["timeouts"] > fast(row) for row in mine),
            "fast": sum(fast(row) for row in mine),
            "timeouts": sum(row["timeouts"] for row in mine),
        }
        for least, mine in sorted(parts.items())
    ]


def test_the_median_write_of_each_connection(rows: dict[str, list[Row]], found: dict[str, Any]) -> None:
    writes: dict[int, list[int]] = defaultdict(lambda: [0] * len(SIZES))
    for row in rows["fleet_intervals"]:
        if row.get("writes"):
            for place, size in enumerate(SIZES):
                writes[row["conn_id"]][place] += row[f"writes_{size}"]
    expected: dict[str, dict[str, int]] = {}
    for counts in writes.values():
        each = [place for place, count in enumerate(counts) for _ in range(count)]
        entry = expected.setdefault(SIZES[each[(len(each) - 1) // 2]], {"connections": 0, "writes": 0})
        entry["connections"] += 1
        entry["writes"] += len(each)
    assert found["median_writes"] == expected
    assert len(expected) >= 4


def test_coefficients_of_hosts_are_the_mean_over_pairs(rows: dict[str, list[Row]], found: dict[str, Any]) -> None:
    vectors: dict[str, dict[int, np.ndarray]] = {host: {} for host in HOSTS}
    for row in rows["fleet_problems"]:
        # what the host does not measure is no zero
        measured = [us for problem in PROBLEMS if (us := row[f"{problem}_us"]) is not None]
        vector = vectors[row["host"]].setdefault(row["conn_id"], np.zeros((len(measured), BINS)))
        vector[:, (row["begin_ns"] - BEGIN_NS) // BIN_NS] = measured
    expected = []
    for mine in vectors.values():
        flat = [vector.reshape(-1) for vector in mine.values() if vector.any()]
        if len(flat) >= 10:
            matrix = np.corrcoef(np.array(flat))
            expected.append((matrix.sum() - len(flat)) / (len(flat) * (len(flat) - 1)))
    assert len(expected) > 8
    assert found["host_coefficients"] == pytest.approx(sorted(expected), abs=1e-9)


def test_what_the_agents_cost(rows: dict[str, list[Row]], found: dict[str, Any]) -> None:
    of_host: dict[str, list[Row]] = defaultdict(list)
    for row in rows["fleet_coverage"]:
        of_host[row["host"]].append(row)
    cpu = {
        host: sum(row["cpu_us"] for row in mine) / sum(row["length_us"] for row in mine)
        for host, mine in of_host.items()
    }
    bpf = sorted(
        sum(row["bpf_us"] for row in mine) / sum(row["length_us"] for row in mine)
        for mine in of_host.values()
        if mine[0]["bpf_us"] is not None
    )
    agents = found["agents"]
    assert agents["hosts"] == len(HOSTS)
    assert agents["cpu_median"] == pytest.approx(sorted(cpu.values())[(len(cpu) - 1) // 2])
    assert (agents["cpu_most"], agents["cpu_most_host"]) == (
        pytest.approx(max(cpu.values())),
        max(cpu, key=lambda h: cpu[h]),
    )
    assert agents["bpf_median"] == pytest.approx(bpf[(len(bpf) - 1) // 2])
    every = rows["fleet_coverage"]
    assert agents["rss_most_bytes"] == max(row["rss_bytes"] for row in every)
    assert (agents["polls"], agents["lost"]) == (sum(row["polls"] for row in every), 60)
    assert (agents["dropped_files"], agents["dropping_hosts"]) == (59, 1)
    assert found["versions"] == [
        {"agent": "0.1", "kernel": "6.12", "detail": "calls", "hosts": 11},
        {"agent": "0.1", "kernel": "6.12", "detail": "stats", "hosts": 1},
    ]
    assert found["coverage"]["partly_watched"] == {"host-05": 0.5}
