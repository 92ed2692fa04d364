//! Each cure of the recipe "Inefficient TCP/IP Synchronization" is measured.

use std::collections::BTreeMap;

use serde_json::Value;

use testbed::report::number;
use testbed::{finish, whylat};

/// From the first command to readiness, without a recorder.
fn startup_ns(words: &str, congctl: &str) -> u64 {
    let words = format!("lab fault vtune_startup --congctl {congctl} {words}");
    let said = finish(&mut whylat(&words));
    said.ended(0);
    let truth: Value = serde_json::from_str(&said.out).expect("JSON");
    number(&truth, "/roles/0/clients/0/startup_ns")
}

/// How many times faster start-up is with each cure: the median of three rounds, in each of which all
/// are played in turn.
fn times_faster(cures: &[&'static str], congctl: &str) -> BTreeMap<&'static str, f64> {
    const ROUNDS: usize = 3;
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let faulty_ns = startup_ns("--variant faulty", congctl);
        for cure in cures {
            let cured_ns = startup_ns(&format!("--variant mended --cure {cure}"), congctl);
            let ratio = faulty_ns as f64 / cured_ns as f64;
            ratios.entry(cure).or_default().push(ratio);
        }
    }
    let median = |mut ratios: Vec<f64>| {
        ratios.sort_by(f64::total_cmp);
        ratios[ROUNDS / 2]
    };
    let medians = ratios.into_iter().map(|(cure, all)| (cure, median(all)));
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

/// Five times faster, as the recipe says; but not by the recipe's own cure: on Linux the ACK timer does
/// not know the buffer.
fn each_is_measured(congctl: &str) {
    let faster = times_faster(&["writev", "nodelay", "quickack", "rcvbuf"], congctl);
    let helps = |cure| faster[cure] >= 5.0;
    let all_help = ["writev", "nodelay", "quickack"].into_iter().all(helps);
    assert!(all_help && !helps("rcvbuf"), "{faster:?}");
}
