//! Kernel to records: the probes of whylat. `itt` has another source: what programs say.

pub mod activity;
mod busy_poll;
mod calls;
pub mod clock;
pub mod cpu;
mod cpu_clocks;
mod dns_waits;
pub mod drops;
mod failed_connects;
#[doc(hidden)]
pub mod files;
pub mod fuzz;
mod helper;
pub mod hooks;
mod interface;
pub mod inventory;
mod iterator;
pub mod itt;
mod messages;
pub mod net_counters;
pub mod netns;
pub mod nic;
mod on_cpu_samples;
mod perf_event;
mod perf_ring;
mod preemptions;
pub mod privileges;
pub mod processes;
pub mod python;
pub mod self_cost;
pub mod signals;
mod skel;
pub mod stacks;
mod tcp_events;
mod tcp_stages;
pub mod tcp_stats;
mod udp;
mod udp_flows;
mod unix_sockets;
pub mod usdt;
pub mod waits;
pub mod watch;
mod wire;
mod zerocopy;

use interface::Probe;

/// The probes, in the order of their accounts: the one list. What each is, it says itself.
static PROBES: &[&dyn Probe] = &[
    &inventory::Inventory,
    &inventory::Listeners,
    &failed_connects::FailedConnects,
    &udp::UdpSockets,
    &unix_sockets::UnixSockets,
    &udp_flows::UdpFlows,
    &tcp_events::TcpEvents,
    &tcp_stats::TcpStats,
    &tcp_stages::TcpStages,
    &calls::Calls,
    &zerocopy::ZerocopySends,
    &waits::Waits,
    &files::FileNames,
    &preemptions::Preemptions,
    &dns_waits::DnsWaits,
    &messages::ReceivedProbe,
    &messages::SentProbe,
    &busy_poll::BusyPolls,
    &on_cpu_samples::OnCpuSamples,
    &drops::Drops,
    &drops::DropReadings,
    &net_counters::NetCounterReadings,
    &processes::Processes,
    &watch::Watch,
    // the last that is drained when there is much in all rings: what does not fit there is asked for again
    &stacks::StackFrames,
    &stacks::SampledStacks,
    &python::PythonCodes,
    &stacks::Symbols,
    &clock::ClockPairs,
    &cpu::ProcessSamples,
    &cpu::CpuSamples,
];
