"""Names that mean harm: in a command name, every output shows them as text and nothing else."""

import csv
import io
import re
import shutil

from crowds import Crowd
from harness import Netns, Recorder, Seen, demand, scratch, whylat

# Each fits into a command name (15 bytes).
NAMES = (
    b"</script><b>",
    b"\x1b]52;c;aGk=\x07",
    b"a\x1b[31m\r\nred",
    "\u202egpj.sh".encode(),
    b'x","y":"z\n',
    b"=cmd|' /C'!A",
    b"\xff\xfe\xc3(,\x80",
    "\x9b2J\x85nel".encode(),
    b"$(id)`id`",
)
# C0 without tab and line feed, DEL, C1; and characters that reorder a line.
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _record(place, netns, number, name):
    with Crowd("named", name.hex(), netns=netns) as named:
        named.ready()
        with Recorder("-p", named.pid, scratch=place, name=f"r{number}") as recorder:
            named.go()
            named.said()
            recorder.stop()
    return recorder.path


def _outputs(path, place):
    yield "text", whylat("report", path, code=(0, 3))
    yield "waits", whylat("report", "--by", "thread", path, code=(0, 3))
    yield "json", whylat("report", "--format", "json", path, code=(0, 3))
    for format_, more in (("html", ()), ("perfetto", ()), ("csv", ("--table", "processes"))):
        out = place / f"out.{format_}"
        whylat("report", "--format", format_, *more, "-o", out, "--force", path, code=(0, 3))
        yield format_, out.read_bytes()


def _check_csv(name, output):
    """A table as it is: a reader gets the name that was there, in one field; what is not UTF-8 is replaced."""
    header, *rows = csv.reader(io.StringIO(output.decode(), newline=""), strict=True)
    widths = {len(row) for row in rows}
    demand(widths == {len(header)}, f"rows of {name!r} have {widths} fields, not {len(header)}")
    names = {row[header.index("comm")] for row in rows}
    demand(name.decode(errors="replace") in names, f"csv of {name!r} has {names}")


def _check_perfetto(name, output):
    """Texts are beside numbers there: of these, bytes may be any, but not as in the name."""
    text = name.decode(errors="replace")
    dangerous = FORBIDDEN.search(text) or "\n" in text
    demand(not dangerous or text.encode() not in output, f"perfetto holds {name!r}")
    demand(dangerous or text.encode() in output, f"perfetto does not hold {name!r}")


def _check_text(name, format_, output):
    text = output.decode()
    found = FORBIDDEN.search(text)
    demand(not found, f"{format_} of {name!r} holds {found and found.group()!r}")
    if format_ == "html":
        demand(text.lower().count("</script") == text.lower().count("<script"), f"{name!r} ends a script of the page")
        demand("<b>" not in text.split("<body", 1)[-1], f"{name!r} is markup")


def _check(name, format_, output):
    demand(output, f"{format_} of {name!r} is empty")
    if format_ == "csv":
        _check_csv(name, output)
    elif format_ == "perfetto":
        _check_perfetto(name, output)
    else:
        _check_text(name, format_, output)


def hostile(options):
    """Programs with such names are recorded, and every output is looked at."""
    chosen = NAMES if options.whole else NAMES[:7]
    outputs = 0
    with scratch() as place, Netns() as netns:
        for number, name in enumerate(chosen):
            path = _record(place, netns, number, name)
            for format_, output in _outputs(path, place):
                _check(name, format_, output)
                outputs += 1
            shutil.rmtree(path)
    seen = (
        f"{len(chosen)} names in {outputs} outputs: 0 raw control or reordering characters, 0 scripts ended; "
        "CSV gives each name back"
    )
    return Seen(
        "hostile names",
        "`</script>`, OSC 52, colour, line ends, bidi, quotes, `=cmd`, invalid UTF-8 as command names",
        "0 in text, JSON, HTML, Perfetto; one field in CSV",
        seen,
    )
