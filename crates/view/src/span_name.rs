//! Names of CPU activity.

use table::ActivityKind;

/// Returns the name of an activity.
pub(crate) fn activity_name(kind: ActivityKind, name: Option<&str>, tid: Option<u32>) -> String {
    let name = name.unwrap_or("?");
    match kind {
        ActivityKind::Task => match tid {
            Some(tid) => format!("thread {tid} {name}"),
            None => name.to_owned(),
        },
        ActivityKind::Migration => format!("{name} moved to another CPU"),
        ActivityKind::Idle => "idle".to_owned(),
        ActivityKind::Irq => format!("interrupt {name}"),
        ActivityKind::Softirq => format!("softirq {name}"),
        ActivityKind::Syscall | ActivityKind::Function => format!("{name}()"),
        ActivityKind::Untraced | ActivityKind::DecodeError => format!("unknown: {name}"),
    }
}
