"""Names that mean harm: in a command name, every output shows them as text and nothing else."""

import re
import shutil

from crowds import Crowd
from harness import Netns, Recorder, Seen, demand, scratch, whylat

# Each fits into a command name (15 bytes).
NAMES = (
    "</script><b>",
    "\x1b]52;c;aGk=\x07",
    "a\x1b[31mred",
    "\u202egpj.sh",
    'x","y":"z',
    "=cmd|' /C'!A",
    "\x9b2J\x85nel",
    "$(id)`id`",
)
# C0 without tab and line feed, DEL, C1; and characters that reorder a line.
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _record(place, netns, number, name):
    with Crowd("named", name.encode()[:15].hex(), netns=netns) as named:
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


def _check(name, format_, bytes_):
    if format_ == "perfetto":  # protobuf: length before each text, whatever it holds
        return
    text = bytes_.decode()
    found = FORBIDDEN.search(text.replace("\r\n", "\n") if format_ == "csv" else text)
    if format_ != "csv":  # a table as it is: a reader gets the bytes that were there, quoted
        demand(not found, f"{format_} of {name!r} holds {found and found.group()!r}")
    if format_ == "html":
        demand(text.lower().count("</script") == text.lower().count("<script"), f"{name!r} ends a script of the page")
        demand("<b>" not in text.split("<body", 1)[-1], f"{name!r} is markup")


def hostile(options):
    """Programs with such names are recorded, and every output is looked at."""
    chosen = NAMES if options.whole else NAMES[:4]
    outputs = 0
    with scratch() as place, Netns() as netns:
        for number, name in enumerate(chosen):
            path = _record(place, netns, number, name)
            for format_, bytes_ in _outputs(path, place):
                demand(bytes_, f"{format_} of {name!r} is empty")
                _check(name, format_, bytes_)
                outputs += 1
            shutil.rmtree(path)
    seen = f"{len(chosen)} names in {outputs} outputs: 0 raw control or reordering characters, 0 scripts ended"
    return Seen(
        "hostile names", "`</script>`, OSC 52, colour, bidi, quotes as command names", "0 in text, JSON, HTML", seen
    )
