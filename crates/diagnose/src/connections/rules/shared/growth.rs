//! Waits for a buffer that the kernel made larger meanwhile: no setting was too small.

use table::Stage;

use crate::connections::case::Case;
use crate::report::severity::held_up;

/// Returns whether the receiver's window was mostly the limit while it grew.
pub fn is_window_growth(case: &Case) -> bool {
    is_growth(case, Stage::ReceiverWindow, case.window_growth_ns())
}

/// Returns whether the send buffer was mostly the limit while it grew.
pub fn is_send_buffer_growth(case: &Case) -> bool {
    is_growth(case, Stage::SendBuffer, case.send_buffer_growth_ns())
}

/// Returns whether most of a stage's time was growth, and the rest is too short to hold the connection up.
fn is_growth(case: &Case, stage: Stage, growth_ns: Option<u64>) -> bool {
    let growth_ns = growth_ns.unwrap_or(0);
    let rest_ns = case.ns(stage) - growth_ns;
    growth_ns > rest_ns && !held_up(rest_ns, case.life_ns())
}
