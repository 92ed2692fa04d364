//! The names of all rules. The list is written here alone: the rules themselves, the index of their pages, the schemas and the
//! scripts are made from it.

use std::fmt;

use serde::{Serialize, Serializer};

/// Hands the list of all rules to the macro `$then`: the file in `rules/`, and the type in it. They judge a connection in
/// this order; `sender_app_limited` comes last, because it is what remains (SNAP's default class).
macro_rules! for_each_rule {
    ($then:ident) => {
        $then! {
            nagle_delayed_ack::NagleDelayedAck,
            delayed_ack::DelayedAck,
            cork_delay::CorkDelay,
            send_buffer_limited::SendBufferLimited,
            receive_buffer_limited::ReceiveBufferLimited,
            slow_reader::SlowReader,
            path_mtu::PathMtu,
            packet_dropped_here::PacketDroppedHere,
            incast::Incast,
            burst_after_idle::BurstAfterIdle,
            thin_stream_timeouts::ThinStreamTimeouts,
            delayed_ack_after_timeout::DelayedAckAfterTimeout,
            spurious_retransmits::SpuriousRetransmits,
            fast_retransmits::FastRetransmits,
            retransmit_timeouts::RetransmitTimeouts,
            small_writes::SmallWrites,
            small_io::SmallIo,
            zerocopy_copied::ZerocopyCopied,
            proxy_stall::ProxyStall,
            reset_by_us::ResetByUs,
            syn_retries::SynRetries,
            listen_overflow::ListenOverflow,
            softirq_delay::SoftirqDelay,
            cpu_contention::CpuContention,
            local_queue::LocalQueue,
            path_limited::PathLimited,
            send_buffer_exceeds_window::SendBufferExceedsWindow,
            sender_app_limited::SenderAppLimited,
        }
    };
}
pub(crate) use for_each_rule;

/// The same for the rules on requests, in `requests/rules/`: they judge a service in this order, so that a rule that names a
/// deeper cause comes before one that names only where the time went. `$first` is handed over before the list.
macro_rules! for_each_request_rule {
    ($then:ident $($first:tt)*) => {
        $then! {
            $($first)*
            accept_failed::AcceptFailed,
            process_pause::ProcessPause,
            cpu_quota::CpuQuota,
            memory_stall::MemoryStall,
            disk_wait::DiskWait,
            output_blocked::OutputBlocked,
            uneven_workers::UnevenWorkers,
            udp_drops::UdpDrops,
            dns_slow::DnsSlow,
            datagrams_unanswered::DatagramsUnanswered,
            connection_churn::ConnectionChurn,
            reset_by_peer::ResetByPeer,
            connect_failed::ConnectFailed,
            connection_rejected::ConnectionRejected,
            blocked_event_loop::BlockedEventLoop,
            busy_workers::BusyWorkers,
            pool_wait::PoolWait,
            lock_wait::LockWait,
            process_wait::ProcessWait,
            timer_wait::TimerWait,
            slow_start_after_idle::SlowStartAfterIdle,
            application_window::ApplicationWindow,
            serial_round_trips::SerialRoundTrips,
            path_queue::PathQueue,
            remote_slow::RemoteSlow,
            computes::Computes,
        }
    };
}
pub(crate) use for_each_request_rule;

macro_rules! add_request_rules {
    ($($connections:tt)*) => {
        for_each_request_rule! { declare_ids $($connections)* }
    };
}

macro_rules! declare_ids {
    ($($name:ident::$rule:ident),+ $(,)?) => {
        /// Identity of a rule. Its text, the same in JSON, is stable: scripts rely on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RuleId {
            $(
                #[doc = concat!("`docs/findings/", stringify!($name), ".md`.")]
                $rule,
            )+
        }

        impl RuleId {
            /// Every rule: those on connections, then those on requests, each in the order in which they judge.
            pub const ALL: &'static [Self] = &[$(Self::$rule),+];

            /// Returns the name of the rule and of its page.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => stringify!($name),)+
                }
            }
        }
    };
}
for_each_rule!(add_request_rules);

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for RuleId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
