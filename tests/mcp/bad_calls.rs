//! Calls that go wrong: the assistant reads what failed and how to go on, and the session stays.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testbed::{finish, program};

use super::{assistant, folder, json_of};

/// Tool, arguments, and words of the error. None is a recording that is read.
fn bad_calls(outside: &Path) -> Vec<(&'static str, Value, &'static str)> {
    let requests = "requests.whylat";
    let outside = outside.join("requests.whylat");
    vec![
        (
            "report",
            json!({"recording": outside}),
            "outside of the root folder",
        ),
        (
            "report",
            json!({"recording": "../requests.whylat"}),
            "outside of the root folder",
        ),
        (
            "report",
            json!({"recording": "week/../../requests.whylat"}),
            "outside of the root folder",
        ),
        (
            "report",
            json!({"recording": "link.whylat"}),
            "outside of the root folder",
        ),
        (
            "report",
            json!({"recording": "folder/requests.whylat"}),
            "outside of the root folder",
        ),
        (
            "rows",
            json!({"recording": "inner.whylat", "table": "calls"}),
            "outside of the root folder",
        ),
        (
            "report",
            json!({"recording": "absent.whylat"}),
            "there is no absent.whylat",
        ),
        ("report", json!({"recording": "week"}), "week"),
        (
            "report",
            json!({"recording": "unreadable.whylat"}),
            "unreadable.whylat",
        ),
        ("report", json!({"limit": 0}), "limit 0"),
        (
            "report",
            json!({"recording": requests, "sql": "SELECT 1"}),
            "unknown field `sql`",
        ),
        (
            "report",
            json!({"recording": requests, "cursor": -1}),
            "-1 is no cursor",
        ),
        (
            "report",
            json!({"recording": requests, "cursor": 10_000_000}),
            "no answer had the cursor",
        ),
        (
            "requests",
            json!({"recording": requests, "limit": 1_000_000_000}),
            "more than 1,000",
        ),
        (
            "requests",
            json!({"recording": requests, "longer_than": "10"}),
            "not a time",
        ),
        (
            "requests",
            json!({"recording": requests, "from": "2s", "to": "1s"}),
            "no time lies between",
        ),
        (
            "request",
            json!({"recording": requests, "id": "101:q41"}),
            "there is no request 101:q41",
        ),
        (
            "request",
            json!({"recording": requests, "id": "x"}),
            "is no request",
        ),
        (
            "request",
            json!({"recording": requests}),
            "missing field `id`",
        ),
        (
            "page",
            json!({"rule": "../../README"}),
            "there is no rule ../../README",
        ),
        (
            "tables",
            json!({"recording": requests, "table": "passwords"}),
            "no table passwords",
        ),
        (
            "rows",
            json!({"recording": requests, "table": "passwords"}),
            "no table passwords",
        ),
        (
            "rows",
            json!({"recording": requests, "table": "calls", "columns": ["x"]}),
            "no column x",
        ),
        (
            "rows",
            json!({"recording": requests, "table": "calls", "limit": u64::MAX}),
            "more than 1,000",
        ),
        (
            "rows",
            json!({"recording": requests, "table": "calls", "filters": [{"column": "conn"}]}),
            "needs either `equals`",
        ),
        (
            "rows",
            json!({"recording": requests, "table": "calls", "filters": [{"column": "conn", "equals": [1]}]}),
            "cannot compare conn",
        ),
    ]
}

#[test]
fn bad_calls_are_explained() {
    let (folder, outside) = (folder(), folder());
    let (root, other) = (folder.path(), outside.path());
    symlink(other.join("requests.whylat"), root.join("link.whylat")).expect("a link");
    symlink(other, root.join("folder")).expect("a link");
    let inner = root.join("inner.whylat");
    std::fs::create_dir(&inner).expect("a folder");
    let manifest = root.join("requests.whylat/manifest.jsonl");
    std::fs::copy(manifest, inner.join("manifest.jsonl")).expect("copied");
    symlink(other.join("requests.whylat/calls"), inner.join("calls")).expect("a link");

    let assistant = assistant(root);
    for (tool, arguments, words) in bad_calls(other) {
        let reply = assistant.call(tool, arguments.clone());
        let is_explained = reply.text.starts_with("error: ") && reply.text.contains("hint: ");
        assert!(
            reply.is_error && is_explained && reply.text.contains(words),
            "{tool} {arguments}: {reply:?}"
        );
    }
    assert!(assistant.try_call("delete", json!({})).is_err());
    // a link that stays below the root is no harm, and the session is as it was
    symlink("requests.whylat", root.join("same.whylat")).expect("a link");
    let same = assistant.call("requests", json!({"recording": "same.whylat"}));
    assert!(!same.is_error, "{same:?}");
    assistant.end().assert_status(0);
}

#[test]
fn damage_is_in_the_answer() {
    let folder = folder();
    let assistant = assistant(folder.path());
    let damaged = "week/damaged.whylat";
    let report = assistant.call("report", json!({"recording": damaged}));
    assert!(
        !report.is_error && report.text.contains("This recording is damaged"),
        "{report:?}"
    );
    let list = json_of(&assistant.call("findings", json!({"recording": damaged})));
    assert_ne!(list["problems"], json!([]));
    let rows = assistant.call("rows", json!({"recording": damaged, "table": "tcp_stages"}));
    assert!(
        !rows.is_error
            && rows
                .remark
                .is_some_and(|it| it.contains("rows are missing")),
        "{}",
        rows.text
    );
    assistant.end().assert_status(0);
}

#[test]
fn other_input_ends_with_a_message() {
    let folder = folder();
    let mut command = Command::new(program());
    command
        .args(["mcp", "--root"])
        .arg(folder.path().join("absent"));
    finish(&mut command)
        .assert_status(1)
        .explains("as the root folder");
    // stdin is empty: the assistant left before it began
    let mut command = Command::new(program());
    command.args(["mcp", "--root"]).arg(folder.path());
    finish(&mut command)
        .assert_status(1)
        .explains("the session did not begin");
}
