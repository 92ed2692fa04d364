//! Waits of many threads and sockets: what they know is more than a kept recording may have.

use table::tables::Wait;

use crate::plays::waits::{check_object, each_is_named, record_objects, truth, waits, within};

/// Each waited for once: where the byte is there before the thread has left the CPU, there is no wait.
pub fn of_ten_thousand_sockets() {
    let outcome = record_objects("many 10007");
    let (waits, planted) = (waits(&outcome.report), truth(&outcome));
    assert_eq!(planted.len(), 10_007);
    let mut sockets = 0;
    for plant in planted {
        let found = within(&waits, plant);
        let of_sockets: Vec<&Wait> = found.into_iter().filter(|wait| wait.fd.is_some()).collect();
        if !of_sockets.is_empty() {
            check_object(plant, &of_sockets).unwrap_or_else(|why| panic!("{why}"));
            sockets += 1;
        }
    }
    assert!(sockets * 2 > planted.len(), "only {sockets} waits");
}

/// Each is blocked a known number of times.
pub fn of_a_thousand_threads() {
    let outcome = record_objects("threads 1009");
    assert_eq!(truth(&outcome).len(), 1009);
    each_is_named(&outcome);
}
