//! `whylat lab tail`: what slows a server's answers down is named, and they are faster without it.

use serde_json::Value;

use crate::harness::{finish, planted, root, whylat};

/// The quantile of a step without a recording, ns.
fn quantile_ns(step: &Value, name: &str) -> u64 {
    let quantiles = step["latency"]["quantiles"].as_array().expect("quantiles");
    let quantile = quantiles.iter().find(|it| it["quantile"] == name);
    quantile.expect("it is told")["ns"]["median_ns"]
        .as_u64()
        .expect("ns")
}

#[test]
fn what_keeps_a_server_busy_is_named_and_mended() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if !root() || cpus < 2 {
        eprintln!("skipped: it needs root and two CPUs");
        return;
    }
    planted(|| {
        let mut study =
            whylat("lab tail --app redis --rounds 1 --repeats 0 --requests 20011 --format json");
        let ended = finish(&mut study);
        ended.ended(0);
        let result: Value = serde_json::from_str(&ended.out).expect("JSON");
        assert_eq!(result["schema"], "whylat.study/1");
        let [found, mended] = result["steps"].as_array().expect("steps").as_slice() else {
            panic!("two steps: {result:#}");
        };
        // a virtual machine's CPUs stand still now and then, and others may want them
        let said = &found["said"];
        if found["is_named"] != true {
            return Err(format!("another cause was the first: {said}"));
        }
        assert_eq!(said["rule"], "head_of_line_blocking");
        let p99_ns = [found, mended].map(|step| quantile_ns(step, "p99"));
        if p99_ns[0] < 2 * p99_ns[1] {
            return Err(format!("no faster: p99 {p99_ns:?} ns"));
        }
        Ok(())
    });
}

#[test]
fn the_study_says_what_it_lacks() {
    if !root() {
        return;
    }
    let mut study = whylat("lab tail --app redis --rounds 1 --requests 7");
    let ended = finish(study.env("PATH", "/nonexistent"));
    ended.ended(1);
    assert!(ended.err.contains("hint: "), "{}", ended.err);
}
