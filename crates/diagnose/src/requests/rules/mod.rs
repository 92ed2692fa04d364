//! The rules on requests: one file each, listed in `report/rule_id.rs`. A rule looks at one service (or at programs) and says
//! that it fires, that it is quiet, or that the recording does not show it.
//!
//! A rule explains parts of the time of requests, and names what it excluded. Rules judge in the order of the list: one that
//! names a deeper cause comes before one that names only where the time went. Its page is `docs/findings/NAME.md`.

mod accept_failed;
mod application_window;
mod blocked_event_loop;
mod busy_workers;
mod computes;
mod connect_failed;
mod connection_churn;
mod connection_rejected;
mod cpu_contention;
mod cpu_quota;
mod datagrams_unanswered;
mod disk_wait;
mod dns_slow;
mod host;
mod lock_wait;
mod memory_stall;
mod output_blocked;
mod path_queue;
mod pool_wait;
mod process_pause;
mod process_wait;
mod remote_slow;
mod reset_by_peer;
mod rule;
mod serial_round_trips;
pub(crate) mod shared;
mod slow_start_after_idle;
mod timer_wait;
mod udp_drops;
mod uneven_workers;

use crate::report::for_each_request_rule;

pub use rule::{ProgramVerdict, Remedy, RequestFinding, RequestRule, RequestVerdict};

macro_rules! declare_rules {
    ($first:ident::$first_rule:ident, $($name:ident::$rule:ident),+ $(,)?) => {
        /// All rules on requests, in the order in which they judge a service. `cpu_contention` is a rule on connections, too:
        /// that list has its name. It comes second: requests in an accept queue that nobody can serve wait for no CPU.
        pub const REQUEST_RULES: &[&dyn RequestRule] =
            &[&$first::$first_rule, &cpu_contention::CpuContention, $(&$name::$rule),+];
    };
}
for_each_request_rule!(declare_rules);
