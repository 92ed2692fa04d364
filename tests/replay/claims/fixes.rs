//! Each fix of the recipe "Inefficient TCP/IP Synchronization" is measured.

use std::collections::BTreeMap;

use serde_json::Value;

use testbed::report::number;
use testbed::{finish, whylat};

/// From the first command to readiness, without a recorder.
fn startup_ns(words: &str, congctl: &str) -> u64 {
    let words = format!("lab fault vtune_startup --congctl {congctl} {words}");
    let output = finish(&mut whylat(&words));
    output.assert_status(0);
    let truth: Value = serde_json::from_str(&output.out).expect("JSON");
    number(&truth, "/roles/0/clients/0/startup_ns")
}

/// How many times faster start-up is with each fix: the median of three rounds. Each round plays all
/// in turn.
fn times_faster(fixes: &[&'static str], congctl: &str) -> BTreeMap<&'static str, f64> {
    const ROUNDS: usize = 3;
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let faulty_ns = startup_ns("--variant faulty", congctl);
        for fix in fixes {
            let fixed_ns = startup_ns(&format!("--variant mended --cure {fix}"), congctl);
            let ratio = faulty_ns as f64 / fixed_ns as f64;
            ratios.entry(fix).or_default().push(ratio);
        }
    }
    let median = |mut ratios: Vec<f64>| {
        ratios.sort_by(f64::total_cmp);
        ratios[ROUNDS / 2]
    };
    let medians = ratios.into_iter().map(|(fix, all)| (fix, median(all)));
    let medians = medians.collect();
    eprintln!("{congctl}: times faster {medians:?}");
    medians
}

pub fn under_cubic() {
    each_is_measured("cubic");
}

pub fn under_bbr() {
    each_is_measured("bbr");
}

/// Five times faster, as the recipe says; but not by the recipe's own fix: on Linux the ACK timer does
/// not know the buffer.
fn each_is_measured(congctl: &str) {
    let faster = times_faster(&["writev", "nodelay", "quickack", "rcvbuf"], congctl);
    let helps = |fix| faster[fix] >= 5.0;
    let all_help = ["writev", "nodelay", "quickack"].into_iter().all(helps);
    assert!(all_help && !helps("rcvbuf"), "{faster:?}");
}
