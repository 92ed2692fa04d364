"""Names that mean harm: of commands, recordings and files in them. Every output shows them as text and nothing else."""

import contextlib
import csv
import io
import itertools
import json
import os
import pty
import re
import shutil
import subprocess
from concurrent import futures

from crowds import Crowd
from harness import WHYLAT, Netns, Recorder, FaultRow, Wrong, demand, outcome, promised, scratch

# Each fits into a command name (15 bytes).
NAMES = (
    b"</script><b>",
    b"\x1b]52;c;aGk=\x07",
    b"a\x1b[31m\r\nforged",
    "\u202egpj.sh".encode(),
    b'x","y":"z\n',
    b"=cmd|' /C'!A",
    b"\xff\xfe\xc3(,\x80",
    "\x9b2J\x85nel".encode(),
    b"$(id)`id`",
)
# Files that are not in the manifest of a recording, with both endings that whylat reads.
FILES = (
    b"\x1b]52;c;aGk=\x07.parquet",
    b"a\nforged: every digest is right.parquet",
    "\u202eteuqrap.parquet".encode(),
    b"\xff\xfe.parquet",
    "\x9b2J\x85nel.tmp".encode(),
    b"b\r\x1b[2Kforged.tmp",
)
# C0 without tab and line feed, DEL, C1; and characters that reorder a line.
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
DETAIL = ("--detail", "messages", "--keep", "sample=1")


class NameChecks:
    """Holds the outputs of commands about one name, and counts those that were checked."""

    def __init__(self, name):
        self.name, self.outputs = name, 0

    def output(self, what, text, kind="text"):
        """Looks at an output that must not be empty."""
        demand(text, f"{what} of {self.name!r} is empty")
        CHECKS[kind](self.name, what, text)
        self.outputs += 1

    def run(self, *words, code=(0, 3), kind="text", file=None):
        """Runs a command, looks at both streams and at the file that it writes, and gives its stdout or the file."""
        done = outcome(WHYLAT, *words, *(["-o", file, "--force"] if file else []), code=code)
        what = ascii(" ".join(map(str, words)))
        _check_text(self.name, f"stderr of {what}", done.stderr)
        if file is None:
            self.output(what, done.stdout or done.stderr, kind)
            return done.stdout
        _check_text(self.name, f"stdout of {what}", done.stdout)
        self.output(what, file.read_bytes(), kind)
        return file.read_bytes()

    def show(self, *words):
        """The same on a terminal, without colour."""
        self.output(f"{words[0]} on a terminal", _on_terminal(*words))


def _on_terminal(*words):
    """Returns the bytes for a terminal, with line ends as they were written."""
    own, other = pty.openpty()
    command = [str(word) for word in (WHYLAT, *words)]
    environment = {**os.environ, "NO_COLOR": "1"}
    shown = bytearray()
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment):
        os.close(other)
        with contextlib.suppress(OSError):  # nobody writes there any more
            while some := os.read(own, 1 << 16):
                shown += some
    os.close(own)
    return bytes(shown).replace(b"\r\n", b"\n")


def _check_text(name, what, output):
    try:
        text = output.decode()
    except UnicodeDecodeError as error:
        raise Wrong(f"{what} of {name!r} is not UTF-8: {error}") from None
    found = FORBIDDEN.search(text)
    demand(not found, f"{what} of {name!r} holds {found and found.group()!r}: {text[:300]!r}")
    demand("\nforged" not in text, f"{what} of {name!r} has a line of its own: {text[:300]!r}")


def _check_json(name, what, output):
    _check_text(name, what, output)
    json.loads(output)


def _check_html(name, what, output):
    _check_text(name, what, output)
    text = output.decode()
    demand(text.lower().count("</script") == text.lower().count("<script"), f"{name!r} ends a script of {what}")
    demand("<b>" not in text.split("<body", 1)[-1], f"{name!r} is markup in {what}")


def _check_csv(name, what, output):
    """A table as it is: each row is one, with a field a column; what is not UTF-8 is replaced."""
    header, *rows = csv.reader(io.StringIO(output.decode(), newline=""), strict=True)
    widths = {len(row) for row in rows}
    demand(widths == {len(header)}, f"rows of {what} of {name!r} have {widths} fields, not {len(header)}")
    if {"comm", "exe"} <= set(header):
        names = {row[header.index("comm")] for row in rows}
        demand(name.decode(errors="replace") in names, f"{what} of {name!r} has {names}")


def _check_perfetto(name, what, output):
    """Texts are beside numbers there: of these, bytes may be any, but not as in the name."""
    text = name.decode(errors="replace")
    dangerous = FORBIDDEN.search(text) or "\n" in text
    demand(not dangerous or text.encode() not in output, f"{what} holds {name!r}")
    demand(dangerous or text.encode() in output, f"{what} does not hold {name!r}")


CHECKS = {
    "text": _check_text,
    "json": _check_json,
    "html": _check_html,
    "csv": _check_csv,
    "perfetto": _check_perfetto,
}


def _record(place, netns, number, checks):
    """A recording of a program with that name, in a directory with that name."""
    label = os.fsdecode(checks.name.replace(b"/", b"_"))
    with Crowd("named", checks.name.hex(), netns=netns) as named:
        named.ready()
        with Recorder("-p", named.pid, *DETAIL, scratch=place, name=f"r{number}{label}") as recorder:
            named.go()
            named.lines()
            recorder.stop()
    checks.output("stderr of record", recorder.log.read_bytes())
    return recorder.path


def _reports(checks, path):
    """Runs every report of a recording, as text and as JSON."""
    questions = [
        (),
        *(("--by", by) for by in ("object", "thread", "stack", "waker")),
        ("--messages",),
        ("--messages", "--other-end", path),
        ("--tail", "p0"),
    ]
    for question in questions:
        checks.run("report", *question, path)
        checks.run("report", *question, "--format", "json", path, kind="json")
    groups = json.loads(checks.run("report", "--messages", "--format", "json", path, kind="json"))["groups"]
    message = next(group["slowest"][0]["id"] for group in groups if group["slowest"])
    checks.run("report", "--message", message, path)
    checks.run("report", "--message", message, "--format", "json", path, kind="json")
    checks.run("diff", path, path)
    checks.run("diff", path, path, "--format", "json", kind="json")
    checks.show("report", path)


def _files(checks, path, place):
    """Writes every kind of file; tables are also shown."""
    checks.run("report", "--format", "html", path, kind="html", file=place / "out.html")
    checks.run("diff", path, path, "--format", "html", kind="html", file=place / "both.html")
    checks.run("view", "--no-open", path, kind="html", file=place / "view.html")
    checks.run("report", "--format", "perfetto", path, kind="perfetto", file=place / "out.pftrace")
    for table in promised((path / "manifest.jsonl").read_bytes()):
        checks.run("report", "--format", "csv", "--table", table, path, kind="csv", file=place / "out.csv")
        checks.show("report", "--format", "csv", "--table", table, path)


def _host(checks, path, place):
    """Runs the commands about the host, with a recording and with one that is not there."""
    checks.run("doctor", code=(0, 1))
    checks.run("doctor", "--json", code=(0, 1), kind="json")
    checks.run("bugreport", "-o", place / "report", path / "missing", code=(1,))
    checks.run("bugreport", "-o", place / "report", path, code=(0,))
    for part in (place / "report").glob("*.json"):
        json.loads(part.read_bytes())
    shutil.rmtree(place / "report")


def _plant(path):
    """Puts files with such names into a table's directory, and into one that has such a name itself. Gives how many."""
    folder = os.fsencode(path / next(iter(promised((path / "manifest.jsonl").read_bytes()))))
    odd = os.path.join(os.fsencode(path), b"\x1b[31m\nforged")
    os.mkdir(odd)
    for directory, file in itertools.product((folder, odd), FILES):
        with open(os.path.join(directory, file), "wb"):
            pass
    return 2 * len(FILES)


def _strangers(checks, path):
    """Each such file is named, on one line and as text, and `recover` takes it out of the way."""
    planted = _plant(path)
    printed = checks.run("validate", path, code=(1,)).decode()
    lines = [line for line in printed.splitlines() if "is not in the manifest" in line or "was never sealed" in line]
    demand(len(lines) == planted, f"{planted} files are not in the manifest, and {len(lines)} are named: {printed!r}")
    checks.run("report", path)
    printed = checks.run("recover", path, code=(0,)).decode()
    lines = [line for line in printed.splitlines() if line.startswith(("removed ", "set aside "))]
    demand(len(lines) == planted, f"{planted} files are not in the manifest, and {len(lines)} are dealt with: {printed!r}")
    checks.run("validate", path, code=(0,))


def _damage(checks, path, place):
    """A file is gone, so that everything names it, by the path of its recording."""
    files = promised((path / "manifest.jsonl").read_bytes())["connections"]
    (path / next(iter(files))).unlink()
    checks.run("validate", path, code=(1,))
    checks.run("recover", path, code=(3,))
    checks.run("report", path, code=(3,))
    checks.run("report", "--format", "json", path, code=(3,), kind="json")
    checks.run("report", "--format", "html", path, code=(3,), kind="html", file=place / "out.html")
    checks.run("report", "--format", "csv", "--table", "processes", path, code=(3,), kind="csv", file=place / "out.csv")


def _refused(checks, path):
    """Recordings that cannot be read, and one that is not there: the error names them."""
    shutil.rmtree(path)
    path.mkdir()
    checks.run("report", path, code=(1,))
    header = {"format": 1_000_000, "whylat": checks.name.decode(errors="replace")}
    (path / "manifest.jsonl").write_text(json.dumps({"header": header}) + "\n")
    for command in ("report", "validate", "recover"):
        checks.run(command, path, code=(1,))
    shutil.rmtree(path)
    checks.run("report", path, code=(1,))


def _check_name(netns, number, name, with_host):
    """Records a program with that name, and checks every output. Gives how many there were."""
    checks = NameChecks(name)
    with scratch() as place:
        path = _record(place, netns, number, checks)
        _reports(checks, path)
        _files(checks, path, place)
        if with_host:
            _host(checks, path, place)
        _strangers(checks, path)
        _damage(checks, path, place)
        _refused(checks, path)
    return checks.outputs


def hostile(options):
    """Programs with such names are recorded, two at a time, and every output is checked."""
    chosen = NAMES if options.whole else NAMES[:7]
    with Netns() as netns, futures.ThreadPoolExecutor(2) as names:
        checked = [
            names.submit(_check_name, netns, number, name, options.whole or number == 1)
            for number, name in enumerate(chosen)
        ]
        try:
            outputs = sum(one.result() for one in futures.as_completed(checked))
        finally:
            # after a failure the others do not begin
            names.shutdown(cancel_futures=True)
    seen = (
        f"{len(chosen)} names in {outputs} outputs and on stderr: 0 raw control or reordering characters, 0 lines or "
        "scripts of their own; CSV gives each name back"
    )
    return FaultRow(
        "hostile names",
        "`</script>`, OSC 52, colour, line ends, bidi, quotes, `=cmd`, invalid UTF-8 as names of commands, recordings "
        "and files in them",
        "0 in text, JSON, HTML, Perfetto, on a terminal and on stderr; one field in CSV",
        seen,
    )
