//! `whylat lab tail`: what slows a server's answers down is named, and they are faster without it.

use serde_json::Value;

use testbed::{finish, whylat};

/// The quantile of a step without a recording, ns.
fn quantile_ns(step: &Value, name: &str) -> u64 {
    let quantiles = step["latency"]["quantiles"].as_array().expect("quantiles");
    let quantile = quantiles.iter().find(|it| it["quantile"] == name);
    quantile.expect("a quantile")["ns"]["median_ns"]
        .as_u64()
        .expect("ns")
}

pub fn cause_is_named_and_fixed() {
    let mut study =
        whylat("lab tail --app redis --rounds 1 --repeats 0 --requests 20011 --format json");
    let ended = finish(&mut study);
    ended.assert_status(0);
    let result: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(result["schema"], "whylat.study/1");
    let [found, fixed] = result["steps"].as_array().expect("steps").as_slice() else {
        panic!("two steps: {result:#}");
    };
    let verdict = &found["said"];
    assert_eq!(
        found["is_named"], true,
        "another cause was the first: {verdict}"
    );
    assert_eq!(verdict["rule"], "head_of_line_blocking");
    let p99_ns = [found, fixed].map(|step| quantile_ns(step, "p99"));
    assert!(p99_ns[0] >= 2 * p99_ns[1], "no faster: p99 {p99_ns:?} ns");
}
