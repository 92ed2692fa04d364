//! Compares the report of a small recording with that of the whole one.

use std::collections::HashSet;

use serde_json::Value;

/// Whether two reports have the same findings of the same connections and times, and the same shares of stages; where
/// sockets were left out, whether all others have the same shares and rules.
pub fn finds_the_same(whole: &Value, small: &Value, left_out: &HashSet<u64>) -> Result<(), String> {
    let finding = [
        "rule",
        "severity",
        "direction",
        "subject",
        "from_ns",
        "until_ns",
    ];
    let connection = ["id", "stages", "receive", "not_judged", "findings"];
    let is_kept = |item: &&Value| {
        let id = item["id"].as_u64();
        id.is_none_or(|id| !left_out.contains(&id))
    };
    let of = |report: &Value, part: &str, members: &[&str]| -> Value {
        let items = report[part].as_array().into_iter().flatten();
        let items = items.filter(is_kept);
        let members = |item: &Value| -> Value {
            let members = members.iter();
            members
                .map(|name| ((*name).to_owned(), item[*name].clone()))
                .collect()
        };
        items.map(members).collect()
    };
    let parts = [
        ("connections", connection.as_slice()),
        ("findings", &finding),
    ];
    // one finding speaks of many sockets
    let count = if left_out.is_empty() { 2 } else { 1 };
    parts[..count].iter().try_for_each(|(part, members)| {
        same(part, &of(whole, part, members), &of(small, part, members))
    })
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn same(part: &str, whole: &Value, small: &Value) -> Result<(), String> {
    let (whole, small) = (items(whole), items(small));
    let differs = |(whole, small): &(&Value, &Value)| whole != small;
    let first = whole.iter().zip(small).find(differs);
    match first {
        None if whole.len() == small.len() => Ok(()),
        None => Err(format!(
            "the small recording has {} {part}, not {}",
            small.len(),
            whole.len()
        )),
        Some((whole, small)) => Err(format!(
            "the small recording has other {part}: {small}, not {whole}"
        )),
    }
}
