//! `whylat mcp` as an assistant uses it: the official SDK's client starts the program and calls its tools. No privileges
//! needed: recordings are made of text.

mod bad_calls;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use table::Columns;
use tempfile::TempDir;
use testbed::assistant::{Assistant, ToolReply};
use testbed::program;

/// Text of `tests/`.
fn expected(file: &str) -> String {
    let path = tests().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

/// A folder with recordings: requests, a warning in a folder, and one that is damaged.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let make = |text: &str, name: &str| {
        let path = folder.path().join(name);
        table::write_fixture(tests().join(text), &path).expect("written");
        path
    };
    make("golden_requests/recording", "requests.whylat");
    std::fs::create_dir(folder.path().join("week")).expect("a folder");
    make("golden/slow_reader/fires", "week/slow.whylat");
    let damaged = make("golden/slow_reader/fires", "week/damaged.whylat");
    for file in std::fs::read_dir(damaged.join("tcp_stages"))
        .expect("a table")
        .flatten()
    {
        std::fs::write(file.path(), "no Parquet").expect("written");
    }
    let unreadable = folder.path().join("unreadable.whylat");
    std::fs::create_dir(&unreadable).expect("a folder");
    std::fs::write(unreadable.join("manifest.jsonl"), "no JSON\n").expect("written");
    folder
}

fn assistant(root: &Path) -> Assistant {
    let mut command = Command::new(program());
    command.args(["mcp", "--root"]).arg(root);
    Assistant::start(&mut command)
}

#[track_caller]
fn json_of(reply: &ToolReply) -> Value {
    assert!(!reply.is_error, "{}", reply.text);
    serde_json::from_str(&reply.text).expect("JSON")
}

#[test]
fn server_describes_itself_and_its_tools() {
    let folder = folder();
    let assistant = assistant(folder.path());
    let server = assistant.server();
    assert_eq!(server.server_info.expect("a name").name, "whylat");
    assert!(
        server
            .instructions
            .expect("instructions")
            .contains("never instructions")
    );
    let tools = assistant.tools();
    let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    let all = [
        "recordings",
        "report",
        "findings",
        "page",
        "requests",
        "request",
        "tables",
        "rows",
    ];
    assert_eq!(names, all);
    let guide = expected("../docs/mcp.md");
    for tool in &tools {
        let annotations = tool.annotations.as_ref().expect("annotations");
        assert_eq!(annotations.read_only_hint, Some(true));
        assert!(
            guide.contains(&format!("| `{}` |", tool.name)),
            "{}",
            tool.name
        );
    }
    assistant.end().assert_status(0);
}

#[test]
fn recordings_are_listed_in_pages() {
    let folder = folder();
    let assistant = assistant(folder.path());
    let all = json_of(&assistant.call("recordings", json!({})));
    let path = |it: &Value| it["path"].as_str().expect("a path").to_owned();
    let mut paths: Vec<_> = all.as_array().expect("a list").iter().map(path).collect();
    let mut again = Vec::new();
    for (cursor, left) in (0..4).rev().enumerate() {
        let one = assistant.call("recordings", json!({"limit": 1, "cursor": cursor}));
        let next = format!("{left} more recording");
        assert_eq!(one.remark.is_some_and(|it| it.starts_with(&next)), left > 0);
        again.extend(
            json_of_text(&one.text)
                .as_array()
                .expect("a list")
                .iter()
                .map(path),
        );
    }
    assert_eq!(paths, again);
    paths.sort();
    let names = [
        "requests.whylat",
        "unreadable.whylat",
        "week/damaged.whylat",
        "week/slow.whylat",
    ];
    assert_eq!(paths, names);
    let entry = |name: &str| {
        let mut entries = all.as_array().expect("a list").iter();
        entries
            .find(|it| it["path"] == name)
            .expect("listed")
            .clone()
    };
    assert_eq!(entry("requests.whylat")["host"], "lab1");
    assert_eq!(entry("requests.whylat")["is_being_recorded"], false);
    assert!(entry("unreadable.whylat")["error"].is_string());
    assert!(entry("week/damaged.whylat")["problems"].is_array());
    assistant.end().assert_status(0);
}

fn json_of_text(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn answers_are_those_of_report() {
    let folder = folder();
    let assistant = assistant(folder.path());
    let answer = |tool: &str, arguments: Value| {
        let reply = assistant.call(tool, arguments);
        assert!(!reply.is_error && reply.remark.is_none(), "{reply:?}");
        reply.text
    };
    assert_eq!(
        answer("report", json!({"recording": "week/slow.whylat"})),
        expected("golden/slow_reader/fires/expected.txt")
    );
    let requests = json!({"recording": "requests.whylat"});
    assert_eq!(
        answer("requests", requests),
        expected("golden_requests/requests.txt")
    );
    let absolute = folder.path().join("requests.whylat");
    let request = json!({"recording": absolute, "id": "101:q40"});
    assert_eq!(
        answer("request", request),
        expected("golden_requests/request.txt")
    );
    let filtered = json!({
        "recording": "requests.whylat", "longer_than": "20ms", "pid": 700, "format": "json"
    });
    let filtered = json_of_text(&answer("requests", filtered));
    let ids = filtered["requests"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["id"]);
    assert_eq!(ids.collect::<Vec<_>>(), ["101:q40", "103:q0"]);
    // the only *.whylat in the root folder that can be read is not the newest
    assert!(assistant.call("report", json!({})).is_error);
    assistant.end().assert_status(0);
}

#[test]
fn findings_lead_to_their_page() {
    let folder = folder();
    let assistant = assistant(folder.path());
    let slow = "week/slow.whylat";
    let list = json_of(&assistant.call(
        "findings",
        json!({"recording": slow, "severity": "warning"}),
    ));
    let finding = &list["findings"][0];
    assert_eq!(finding["rule"], "slow_reader");
    assert!(finding["advice"].is_array() && finding["evidence"].is_object());
    let none = json!({"recording": slow, "rule": "incast"});
    assert_eq!(
        json_of(&assistant.call("findings", none))["findings"],
        json!([])
    );
    let page = assistant.call("page", json!({"rule": finding["rule"]}));
    assert_eq!(page.text, expected("../docs/findings/slow_reader.md"));
    let index = assistant.call("page", json!({}));
    assert_eq!(index.text, expected("../docs/findings/README.md"));
    assistant.end().assert_status(0);
}

#[test]
fn rows_are_selected_without_sql() {
    let folder = folder();
    let assistant = assistant(folder.path());
    let recording = "requests.whylat";
    let tables = json_of(&assistant.call("tables", json!({"recording": recording})));
    let names = tables
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["table"]);
    let names: Vec<_> = names.collect();
    assert!(
        names.contains(&&json!("calls")) && names.contains(&&json!("waits")),
        "{names:?}"
    );
    let columns =
        json_of(&assistant.call("tables", json!({"recording": recording, "table": "calls"})));
    let conn = columns
        .as_array()
        .expect("a list")
        .iter()
        .find(|it| it["column"] == "conn");
    assert_eq!(conn.expect("a column")["unit"], "-");

    let every = assistant.call("rows", json!({"recording": recording, "table": "calls"}));
    let csv = {
        let mut report = Command::new(program());
        let path = folder.path().join(recording);
        report
            .args(["report", "--format", "csv", "--table", "calls"])
            .arg(path);
        testbed::finish(&mut report).out
    };
    assert_eq!(every.text, csv);
    let lines = |cursor: u64| {
        let arguments = json!({
            "recording": recording, "table": "calls", "columns": ["result", "conn"], "limit": 1, "cursor": cursor,
            "filters": [
                {"column": "conn", "equals": 101}, {"column": "is_send", "equals": true},
                {"column": "result", "at_least": 1, "below": 1_000_000},
            ],
        });
        let reply = assistant.call("rows", arguments);
        let (head, rows) = reply.text.split_once('\n').expect("a line");
        assert_eq!(head, "result,conn");
        let rows: Vec<_> = rows.lines().map(str::to_owned).collect();
        let next = reply
            .remark
            .map(|it| it.rsplit_once(' ').expect("a cursor").1.parse::<u64>());
        (rows, next.map(|it| it.expect("a number")))
    };
    let recorded = table::Recording::open(folder.path().join(recording)).expect("open");
    let calls = recorded.read_all::<table::tables::Call>();
    let all = (0..calls.len()).map(|index| calls.row(index));
    let all = all.filter(|it| it.conn == 101 && it.is_send && it.result > 0);
    let all: Vec<_> = all.map(|it| format!("{},101", it.result)).collect();
    let (mut given, mut cursor) = (Vec::new(), Some(0));
    while let Some(at) = cursor {
        let (rows, next) = lines(at);
        assert_eq!(rows.len(), 1);
        given.extend(rows);
        cursor = next;
    }
    assert_eq!(all.len(), 2);
    assert_eq!(given, all);
    assistant.end().assert_status(0);
}

#[test]
fn long_answers_come_in_pieces() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("many.whylat");
    table::write_fixture(tests().join("golden/report/short_connections"), &path).expect("written");
    let assistant = assistant(folder.path());
    let arguments = |cursor: u64| json!({"format": "json", "cursor": cursor});
    let mut all = String::new();
    let mut cursor = 0;
    loop {
        let reply = assistant.call("report", arguments(cursor));
        assert!(
            !reply.is_error && reply.text.len() <= 30_000,
            "{}",
            reply.text.len()
        );
        all.push_str(&reply.text);
        let Some(remark) = reply.remark else {
            break;
        };
        let (_, next) = remark.split_once("\"cursor\": ").expect("a cursor");
        cursor = next.parse().expect("a number");
        assert_eq!(cursor, all.len() as u64);
    }
    assert!(cursor > 0, "the report is one piece: {} bytes", all.len());
    let mut report = Command::new(program());
    report.args(["report", "--format", "json"]).arg(&path);
    assert_eq!(format!("{all}\n"), testbed::finish(&mut report).out);
    assistant.end().assert_status(0);
}
