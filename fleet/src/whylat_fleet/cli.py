"""The `whylat-fleet` command. Data to stdout, messages to stderr; exit 0 done, 1 failed, 2 usage, 3 done with gaps."""

import argparse
import errno
import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whylat_fleet import __version__
from whylat_fleet.dataset import HOUR_NS, SECOND_NS, Dataset, whole_hour
from whylat_fleet.engine import connect
from whylat_fleet.errors import FleetError, UnwatchedError, UsageError
from whylat_fleet.prepare import Coverage, PreparedWindow, ask
from whylat_fleet.report.text import clean, is_coloured, render
from whylat_fleet.schema import CORRELATED, TABLES


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="whylat-fleet",
        description="Finds the host, link, switch or application that slows connections.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    correlate = commands.add_parser("correlate", help="name the culprits: hosts, links, switches, applications")
    correlate.add_argument("dataset", type=Path)
    correlate.add_argument("--alpha", type=float, help="also require a correlation coefficient above this (SNAP: 0.4)")
    _window(correlate)
    _reading(correlate)
    summary = commands.add_parser("summary", help="how often each problem occurs, and on how many connections")
    summary.add_argument("dataset", type=Path)
    _window(summary)
    _reading(summary)
    drill = commands.add_parser("drill", help="show a culprit's connections, and the readings around their problems")
    drill.add_argument("dataset", type=Path)
    drill.add_argument(
        "culprit",
        nargs="+",
        help="a name that `correlate` prints: host h1, host 'h1 (as the peer)', application a, link 'a>b'; or conn ID",
    )
    drill.add_argument("--connections", type=int, default=10, metavar="N", help="connections in the list (default 10)")
    drill.add_argument("--moments", type=int, default=3, metavar="N", help="problems shown with readings (default 3)")
    _window(drill)
    _reading(drill)
    compare = commands.add_parser("compare", help="compare the windows before and after a change")
    compare.add_argument("dataset", type=Path, metavar="BEFORE")
    compare.add_argument("other", type=Path, nargs="?", metavar="AFTER", help="default: the same dataset")
    compare.add_argument("--before", metavar="TIME", help="begin, a full hour in UTC (default: the last)")
    compare.add_argument("--after", metavar="TIME", help="the same for AFTER")
    compare.add_argument("--hours", type=int, default=1, help="length of both windows in hours (default 1)")
    _reading(compare)
    background = commands.add_parser(
        "background", help="write a fleet's background problems, for `simulate --background`"
    )
    background.add_argument("dataset", type=Path)
    _window(background)
    _reading(background, formats=())
    simulate = commands.add_parser("simulate", help="write the dataset of a data centre with known culprits")
    simulate.add_argument("out", type=Path)
    simulate.add_argument(
        "--hosts",
        type=int,
        default=400,
        help="hosts with an agent (default %(default)s; SNAP's 8000 with 150 sockets take a minute and 1.2 GB)",
    )
    simulate.add_argument("--conns", type=int, default=60, help="sockets of a host, median (default %(default)s)")
    simulate.add_argument("--hours", type=int, default=1, help="hours of data (default %(default)s)")
    simulate.add_argument("--begin", help="begin, a full hour in UTC (default: the last)")
    simulate.add_argument("--seed", type=int, default=1, help="seed of the random generator (default %(default)s)")
    simulate.add_argument("--plant", action="append", metavar="CULPRIT[:COUNT]", help="culprit to plant (default: all)")
    simulate.add_argument("--background", type=Path, help="table of background problems")
    return parser


def _window(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="begin", metavar="TIME", help="begin, a full hour in UTC (default: the last)")
    parser.add_argument("--hours", type=int, default=1, help="length in hours (default 1; SNAP: 24 for applications)")


def _reading(parser: argparse.ArgumentParser, formats: Sequence[str] = ("text", "json", "html")) -> None:
    """Options of every command that reads a dataset and writes a report."""
    parser.add_argument("--bin", type=int, default=2, metavar="SECONDS", help="bin length, a multiple of 2 (default 2)")
    parser.add_argument("--topology", type=Path, help="file of switches and links (default: DATASET/topology.json)")
    parser.add_argument("--trust-clocks", action="store_true", help="keep hosts with clocks that may be wrong")
    parser.add_argument(
        "--engine", default="duckdb", help="duckdb (default), spark, spark://HOST:PORT, chdb or datafusion"
    )
    parser.add_argument("--memory", help="limit of DuckDB's memory, for example 2GB; beyond it DuckDB writes to disk")
    if formats:
        parser.add_argument("--format", choices=formats, default="text", help="format of the report (default text)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the report to FILE")
    parser.add_argument("--force", action="store_true", help="replace FILE")


@dataclass(frozen=True, slots=True)
class _Report:
    """Makes a report in one of the formats."""

    as_text: Callable[[], list[str]]
    as_json: Callable[[], dict[str, Any]]
    as_html: Callable[[], str]
    coverage: Coverage


def _answer(
    arguments: argparse.Namespace,
    question: Callable[[PreparedWindow], _Report],
    tables: Sequence[str] = CORRELATED,
    totals: bool = False,
) -> int:
    """Asks a question of the dataset and writes the report."""
    _check_output(arguments)
    dataset = Dataset(arguments.dataset)
    window = dataset.window(arguments.begin, arguments.hours)
    engine = connect(arguments.engine, arguments.memory)

    def report(prepared: PreparedWindow) -> tuple[str, int]:
        made = question(prepared)
        return _formatted(arguments, made), _exit_code(made.coverage)

    clocks, place = arguments.trust_clocks, arguments.topology
    try:
        shown, code = ask(report, engine, dataset, window, arguments.bin, clocks, place, tables, totals)
    finally:
        engine.close()
    _write(arguments, shown)
    return code


def _exit_code(coverage: Coverage) -> int:
    """3 where something is missing."""
    return 3 if coverage.left_out_files or coverage.left_out_hosts or coverage.absent or coverage.lost_records else 0


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuses, before anything is computed, an output that could not be written afterwards."""
    path: Path | None = arguments.output
    if path is None:
        return
    try:
        # a part of the path may be no directory, or may not be readable
        os.stat(path.parent)
        exists = path.exists()
    except OSError as error:
        raise _unwritable(path, error) from None
    if not path.parent.is_dir():
        raise _unwritable(path, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
    if path.is_dir():
        raise _unwritable(path, OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if not os.access(path if exists else path.parent, os.W_OK):
        raise _unwritable(path, OSError(errno.EACCES, os.strerror(errno.EACCES)))
    if exists and not arguments.force:
        raise FleetError(f"{path} exists", "--force replaces it")


def _unwritable(path: Path, error: OSError) -> FleetError:
    where = "name a file in a directory that exists"
    hints = {
        errno.EACCES: "name a file in a directory that you may write to",
        errno.EROFS: "name a file in a directory that you may write to",
        errno.ENOSPC: "name a file where there is room",
        errno.EDQUOT: "name a file where there is room",
    }
    return FleetError(f"cannot write {path}: {error.strerror or error}", hints.get(error.errno or 0, where))


def _formatted(arguments: argparse.Namespace, report: _Report) -> str:
    if arguments.format == "json":
        return json.dumps(report.as_json(), indent=1) + "\n"
    if arguments.format == "html":
        return report.as_html()
    return render(report.as_text(), arguments.output is None and is_coloured(sys.stdout))


def _write_private(path: Path, shown: str) -> None:
    """Writes a file that no other user may read, as it shows addresses and peers. A pipe stays as it is."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), 0o600)
        file.write(shown)


def _write(arguments: argparse.Namespace, shown: str) -> None:
    if arguments.output:
        try:
            _write_private(arguments.output, shown)
        except OSError as error:
            raise _unwritable(arguments.output, error) from None
    else:
        sys.stdout.write(shown)


def _correlate(arguments: argparse.Namespace) -> int:
    from whylat_fleet.blame import blame  # noqa: PLC0415
    from whylat_fleet.drill import examine, quote_culprit  # noqa: PLC0415
    from whylat_fleet.report import culprits  # noqa: PLC0415
    from whylat_fleet.resources import build  # noqa: PLC0415

    # the page shows what happened around problems too
    html = arguments.format == "html"
    dataset, options = shlex.quote(str(arguments.dataset)), _same_question(arguments)

    def command(kind: str, name: str) -> str:
        return f"whylat-fleet drill {dataset} {quote_culprit(kind, name)}{options}"

    def question(prepared: PreparedWindow) -> _Report:
        resources = build(prepared)
        verdict = blame(prepared, resources, arguments.alpha)
        numbers = [culprit.first.resource for culprit in verdict.culprits]
        drills = examine(prepared, resources, numbers, 10, 2 if html else 0) if numbers else []
        return _Report(
            lambda: culprits.as_text(prepared, verdict, drills, command),
            lambda: culprits.as_json(prepared, verdict, drills),
            lambda: culprits.as_html(prepared, verdict, drills),
            prepared.coverage,
        )

    return _answer(arguments, question, tuple(TABLES) if html else CORRELATED)


def _same_question(arguments: argparse.Namespace) -> str:
    """Returns the options that give another command the same window, hosts and resources."""
    given: list[str] = []
    for option, value, default in (
        ("--from", arguments.begin, None),
        ("--hours", arguments.hours, 1),
        ("--bin", arguments.bin, 2),
        ("--topology", arguments.topology, None),
    ):
        given += [option, str(value)] if value != default else []
    given += ["--trust-clocks"] if arguments.trust_clocks else []
    return "".join(f" {shlex.quote(word)}" for word in given)


def _summary(arguments: argparse.Namespace) -> int:
    from whylat_fleet.report import summary  # noqa: PLC0415
    from whylat_fleet.summary import summarise  # noqa: PLC0415

    def question(prepared: PreparedWindow) -> _Report:
        found = summarise(prepared)
        return _Report(
            lambda: summary.as_text(prepared, found),
            lambda: summary.as_json(prepared, found),
            lambda: summary.as_html(prepared, found),
            prepared.coverage,
        )

    return _answer(arguments, question, totals=True)


def _drill(arguments: argparse.Namespace) -> int:
    from whylat_fleet.drill import drill, parse  # noqa: PLC0415
    from whylat_fleet.report import drill as report  # noqa: PLC0415
    from whylat_fleet.resources import build  # noqa: PLC0415

    kind, name = parse(arguments.culprit)
    for option, value in (("--connections", arguments.connections), ("--moments", arguments.moments)):
        if value < 0:
            raise UsageError(f"{option} {value}: the number must be 0 or more", f"{option} 0 for none")

    def question(prepared: PreparedWindow) -> _Report:
        found = drill(prepared, build(prepared), kind, name, arguments.connections, arguments.moments)
        return _Report(
            lambda: report.as_text(prepared, found),
            lambda: report.as_json(prepared, found),
            lambda: report.as_html(prepared, found),
            prepared.coverage,
        )

    return _answer(arguments, question, tuple(TABLES))


def _compare(arguments: argparse.Namespace) -> int:
    from whylat_fleet.compare import compare, side  # noqa: PLC0415
    from whylat_fleet.report import compare as report  # noqa: PLC0415

    if arguments.other is None and not (arguments.before and arguments.after):
        raise UsageError("one dataset needs two windows to compare", "give --before TIME --after TIME, or AFTER")
    _check_output(arguments)
    sides = []
    for root, begin, option in (
        (arguments.dataset, arguments.before, "--before"),
        (arguments.other, arguments.after, "--after"),
    ):
        dataset = Dataset(root or arguments.dataset)
        engine = connect(arguments.engine, arguments.memory)
        try:
            window = dataset.window(begin, arguments.hours, option)
            clocks, place = arguments.trust_clocks, arguments.topology
            sides.append(ask(side, engine, dataset, window, arguments.bin, clocks, place))
        except UnwatchedError as error:
            raise FleetError(f"{option.removeprefix('--')}: {error}", f"give another {option}") from None
        finally:
            engine.close()
    before, after = sides
    found = compare(before, after)
    made = _Report(
        lambda: report.as_text(before, after, found),
        lambda: report.as_json(before, after, found),
        lambda: report.as_html(before, after, found),
        before.coverage,
    )
    _write(arguments, _formatted(arguments, made))
    return max(_exit_code(before.coverage), _exit_code(after.coverage))


def _background(arguments: argparse.Namespace) -> int:
    from whylat_fleet.background import background  # noqa: PLC0415

    _check_output(arguments)
    dataset = Dataset(arguments.dataset)
    window = dataset.window(arguments.begin, arguments.hours)
    engine = connect(arguments.engine, arguments.memory)

    def question(prepared: PreparedWindow) -> tuple[dict[str, Any], int]:
        return background(prepared), _exit_code(prepared.coverage)

    clocks, place = arguments.trust_clocks, arguments.topology
    try:
        found, code = ask(question, engine, dataset, window, arguments.bin, clocks, place)
    finally:
        engine.close()
    _write(arguments, json.dumps(found, indent=2) + "\n")
    return code


def _simulate(arguments: argparse.Namespace) -> int:
    try:
        from whylat_fleet.simulate.run import simulate  # noqa: PLC0415
    except ImportError:
        raise FleetError("numpy is not installed", "pip install 'whylat-fleet[simulate]'") from None
    for option, value, least, why, hint in (
        ("--hosts", arguments.hosts, 1, "a fleet needs 1 or more", "--hosts 100 --conns 60"),
        ("--conns", arguments.conns, 1, "a host needs 1 or more", "--hosts 100 --conns 60"),
        ("--hours", arguments.hours, 1, "a dataset needs 1 or more", "--hours 1"),
        ("--seed", arguments.seed, 0, "a seed is 0 or more", "--seed 1"),
    ):
        if value < least:
            raise UsageError(f"{option} {value}: {why}", hint)
    if arguments.out.exists():
        raise FleetError(f"{arguments.out} exists", "give a new directory")
    now = time.time_ns() // HOUR_NS * HOUR_NS - arguments.hours * HOUR_NS
    if arguments.begin:
        now = int(whole_hour(arguments.begin, "--begin").timestamp()) * SECOND_NS
    try:
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
    except OSError as error:
        raise FleetError(
            f"cannot write {arguments.out}: {error.strerror or error}",
            "name a new directory that you may write to, on a disk with room",
        ) from None
    for plant in planted:
        print(f"planted {plant.truth.plant}: {plant.truth.kind} {plant.truth.name}", file=sys.stderr)
    print(arguments.out)
    return 0


_COMMANDS = {
    "correlate": _correlate,
    "summary": _summary,
    "drill": _drill,
    "compare": _compare,
    "background": _background,
    "simulate": _simulate,
}


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return _COMMANDS[arguments.command](arguments)
    except FleetError as error:
        print(f"error: {clean(str(error))}", file=sys.stderr)
        if error.hint:
            print(f"hint: {clean(error.hint)}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


if __name__ == "__main__":
    raise SystemExit(main())
