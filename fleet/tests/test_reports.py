"""Reports in every format: as the schema says, as the goldens say, and harmless whatever names hosts give."""

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fleet_files import BEGIN, Row

from whylat_fleet.cli import main
from whylat_fleet.report.html import COLOURS
from whylat_fleet.report.svg import ticks
from whylat_fleet.report.text import clean, percent, table

ROOT = Path(__file__).parents[2]
Few = tuple[Path, dict[str, list[Row]]]
COMMANDS = {
    "summary": ["summary", "{root}", "--from", BEGIN],
    "drill": ["drill", "{root}", "host", "host-04", "--from", BEGIN],
    "compare": ["compare", "{root}", "--before", BEGIN, "--after", BEGIN],
    "correlate": ["correlate", "{root}", "--from", BEGIN],
}


def report(root: Path, out: Path, command: str, format_: str) -> str:
    arguments = [word.replace("{root}", str(root)) for word in COMMANDS[command]]
    assert main([*arguments, "--format", format_, "-o", str(out), "--force"]) == 3
    return out.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads((ROOT / "docs/fleet/report.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_as_the_schema_says(few: Few, tmp_path: Path, validator: Any, command: str) -> None:
    data = json.loads(report(few[0], tmp_path / "r.json", command, "json"))
    validator.validate(data)
    data["report"] = "other"
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(data)


@pytest.mark.parametrize("command", ["summary", "drill", "compare"])
def test_text_is_as_the_golden_says(few: Few, tmp_path: Path, command: str) -> None:
    text = report(few[0], tmp_path / "r.txt", command, "text")
    golden = Path(__file__).parent / "golden" / f"{command}.txt"
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert all(letter.isprintable() for letter in text.replace("\n", ""))


class Tags(HTMLParser):
    """Returns the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs


@pytest.mark.parametrize("command", ["summary", "drill", "compare", "correlate"])
def test_a_page_has_no_script_and_asks_nobody(few: Few, tmp_path: Path, command: str) -> None:
    text = report(few[0], tmp_path / "r.html", command, "html")
    page = Tags()
    page.feed(text)
    assert not {"script", "img", "iframe", "object", "base", "form"} & set(page.names)
    assert [name for name, _ in page.attributes if name.startswith("on") or name == "style"] == []
    assert {value for name, value in page.attributes if name in ("src", "href")} == {"data:,"}
    assert "default-src 'none'; style-src 'sha256-" in text
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert "://" not in text


def test_links_of_culprits_lead_to_their_sections(racks: Path, tmp_path: Path, validator: Any) -> None:
    out = tmp_path / "c.html"
    assert main(["correlate", str(racks), "--format", "html", "-o", str(out)]) == 0
    page = Tags()
    page.feed(out.read_text(encoding="utf-8"))
    links = [value for name, value in page.attributes if name == "href" and value != "data:,"]
    assert len(links) >= 2
    assert links == [f"#{value}" for name, value in page.attributes if name == "id"]
    data = tmp_path / "c.json"
    assert main(["correlate", str(racks), "--format", "json", "-o", str(data)]) == 0
    found = json.loads(data.read_text(encoding="utf-8"))
    validator.validate(found)
    assert [len(culprit["connections"]) for culprit in found["culprits"]] == [10] * len(links)
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={tmp_path}/b"]
    shown = subprocess.run([browser, *flags, "--dump-dom", out.as_uri()], capture_output=True, text=True, check=True)
    # the policy lets the page's own style in, and nothing had to be refused
    assert "Refused to" not in shown.stderr
    assert "violates" not in shown.stderr
    assert shown.stdout.count("<svg") == out.read_text(encoding="utf-8").count("<svg") > len(links)


def test_the_look_is_the_viewers() -> None:
    own = ROOT / "fleet/src/whylat_fleet/report/theme/base.css"
    assert own.read_text(encoding="utf-8") == (ROOT / "web/src/theme/base.css").read_text(encoding="utf-8")
    palette = (ROOT / "web/src/theme/palette.ts").read_text(encoding="utf-8")
    named = dict(re.findall(r'const (\w+) = "(#\w+)";', palette))
    for problem, colour in COLOURS.items():
        stage = {"timeout": "retransmit_timeout"}.get(problem, problem)
        if match := re.search(rf'^  {stage}: "?([#\w]+)"?,', palette, re.MULTILINE):
            assert named.get(match[1], match[1]) == colour
        else:
            assert problem == "hosts"


def test_words_and_numbers() -> None:
    assert clean("a\x1b[31m\u202eb\n") == "a\\x1b[31m\\u202eb\\n"
    assert [percent(value) for value in (None, 0, 1e-9, 0.5, 0.999999, 1)] == [
        "-", "0.00%", "<0.01%", "50.00%", ">99.99%", "100.00%",
    ]  # fmt: skip
    assert max(len(line) for line in table(("name", "n"), [["x" * 200, "7"]])) == 80
    assert ticks(0) == [0.0, 1.0]
    assert ticks(7) == [0.0, 2.0, 4.0, 6.0, 8.0]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("format_", ["text", "json", "html"])
def test_every_report_of_simulated_data_says_so(
    racks: Path, few: Few, capsys: pytest.CaptureFixture[str], command: str, format_: str
) -> None:
    words = {
        "drill": ["drill", str(racks), "host", "h00001"],
        "compare": ["compare", str(racks), str(racks)],
    }.get(command, [command, str(racks)])
    assert main([*words, "--format", format_]) == 0
    assert ('"simulated_hosts": 80' if format_ == "json" else "simulated data: 80 hosts") in capsys.readouterr().out
    assert main([*(word.replace("{root}", str(few[0])) for word in COMMANDS[command]), "--format", format_]) == 3
    printed = capsys.readouterr().out
    assert '"simulated_hosts": 0' in printed if format_ == "json" else "simulated" not in printed
