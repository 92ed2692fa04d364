"""The `whylat-fleet` command. Data to stdout, talk to stderr; exit 0 done, 1 failed, 2 usage, 3 done with gaps."""

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from whylat_fleet import __version__
from whylat_fleet.dataset import HOUR_NS, SECOND_NS, Dataset
from whylat_fleet.errors import FleetError, UsageError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="whylat-fleet", description="Why the connections of a fleet are slow together."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    correlate = commands.add_parser("correlate", help="name the hosts, links, switches and applications to blame")
    correlate.add_argument("dataset", type=Path)
    correlate.add_argument(
        "--from", dest="begin", metavar="TIME", help="a whole hour, UTC (default: the last that ended)"
    )
    correlate.add_argument("--hours", type=int, default=1, help="T (default 1; SNAP takes 24 for applications)")
    correlate.add_argument("--bin", type=int, default=2, metavar="SECONDS", help="t, a multiple of 2 (default 2)")
    correlate.add_argument("--alpha", type=float, help="also demand a coefficient above this (SNAP: 0.4)")
    correlate.add_argument("--topology", type=Path, help="default: DATASET/topology.json")
    correlate.add_argument("--trust-clocks", action="store_true", help="do not leave out hosts for their clocks")
    correlate.add_argument("--engine", default="duckdb", help="duckdb, spark, spark://HOST:PORT, chdb, datafusion")
    correlate.add_argument("--memory", help="cap of DuckDB's memory, as 2GB; it then spills")
    correlate.add_argument("--format", choices=("text", "json"), default="text")
    correlate.add_argument("-o", "--output", type=Path)
    correlate.add_argument("--force", action="store_true", help="replace FILE")
    simulate = commands.add_parser("simulate", help="write the dataset of a data centre with known culprits")
    simulate.add_argument("out", type=Path)
    simulate.add_argument("--hosts", type=int, default=8000)
    simulate.add_argument("--conns", type=int, default=150, help="sockets of a host, median")
    simulate.add_argument("--hours", type=int, default=1)
    simulate.add_argument("--begin", help="a whole hour, UTC (default: the last that ended)")
    simulate.add_argument("--seed", type=int, default=1)
    simulate.add_argument("--plant", action="append", metavar="CULPRIT[:COUNT]", help="default: all")
    simulate.add_argument("--background", type=Path, help="table of background problems")
    return parser


def _correlate(arguments: argparse.Namespace) -> int:
    from whylat_fleet.blame import blame  # noqa: PLC0415
    from whylat_fleet.engine import connect  # noqa: PLC0415
    from whylat_fleet.prepare import prepare  # noqa: PLC0415
    from whylat_fleet.report.culprits import as_json, as_text  # noqa: PLC0415
    from whylat_fleet.resources import build  # noqa: PLC0415

    if arguments.output and arguments.output.exists() and not arguments.force:
        raise FleetError(f"{arguments.output} exists", "--force replaces it")
    dataset = Dataset(arguments.dataset)
    window = dataset.window(arguments.begin, arguments.hours)
    engine = connect(arguments.engine, arguments.memory)
    try:
        prepared = prepare(engine, dataset, window, arguments.bin, arguments.trust_clocks, arguments.topology)
        verdict = blame(prepared, build(prepared), arguments.alpha)
    finally:
        engine.close()
    if arguments.format == "json":
        text = json.dumps(as_json(prepared, verdict), indent=1) + "\n"
    else:
        text = as_text(prepared, verdict)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    coverage = prepared.coverage
    return 3 if coverage.left_out_files or coverage.left_out_hosts or coverage.absent or coverage.lost_records else 0


def _simulate(arguments: argparse.Namespace) -> int:
    try:
        from whylat_fleet.simulate.run import simulate  # noqa: PLC0415
    except ImportError:
        raise FleetError("numpy is not installed", "pip install 'whylat-fleet[simulate]'") from None
    if arguments.hosts < 80 or arguments.conns < 1 or arguments.hours < 1:
        raise UsageError("a data centre needs 80 hosts (two racks), a connection and an hour at least")
    if arguments.out.exists():
        raise FleetError(f"{arguments.out} exists", "give a new directory")
    now = time.time_ns() // HOUR_NS * HOUR_NS - arguments.hours * HOUR_NS
    if arguments.begin:
        try:
            first = datetime.fromisoformat(arguments.begin)
        except ValueError:
            raise UsageError(f"--begin {arguments.begin}: not a time", "2026-11-24T05:00") from None
        now = int(first.replace(tzinfo=first.tzinfo or UTC).timestamp()) * SECOND_NS // HOUR_NS * HOUR_NS
    planted = simulate(
        arguments.out,
        arguments.hosts,
        arguments.conns,
        arguments.hours,
        now,
        arguments.seed,
        arguments.plant or ["all"],
        arguments.background,
    )
    for plant in planted:
        print(f"planted {plant.truth.plant}: {plant.truth.kind} {plant.truth.name}", file=sys.stderr)
    print(arguments.out)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return {"correlate": _correlate, "simulate": _simulate}[arguments.command](arguments)
    except FleetError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


if __name__ == "__main__":
    raise SystemExit(main())
