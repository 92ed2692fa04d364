//! The attached programs.

use libbpf_rs::Link;

/// Links of attached programs; dropped to detach.
#[derive(Default)]
pub(super) struct AttachedLinks {
    pub(super) hooks: Vec<Link>,
    /// Those that are attached in windows only; empty between them.
    pub(super) of_windows: Vec<Link>,
    pub(super) walk: Option<Link>,
    pub(super) subflows: Option<Link>,
    pub(super) sockets: Option<Link>,
    pub(super) active: Option<Link>,
    pub(super) draining: Option<Link>,
    pub(super) sending: Option<Link>,
    pub(super) udp: Option<Link>,
    pub(super) preemptions: Option<Link>,
    pub(super) zerocopy: Option<Link>,
}
