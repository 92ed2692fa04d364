//! `flood`: packets that only cost the kernel time, on a CPU of choice. They go over the loopback
//! of a network namespace of its own: its receive packet steering (RPS) hands them to that CPU's
//! softirq. Each is a train of segments (UDP GSO) that the receiving side has to take apart, so
//! that it works far longer than the sender.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use serde::Serialize;

use super::context::Context;
use super::cpu::{ThreadCpu, wait_for_end};
use super::threads::{join_threads, start};
use crate::Netns;
use crate::clock::now_ns;
use crate::error::{HINT_ROOT, LabError};

/// Segments of a train: the most that a kernel takes (`UDP_MAX_SEGMENTS`; 64 before 6.9).
const SEGMENTS: usize = 64;
/// Bytes of a segment.
const SEGMENT_BYTES: u16 = 100;

/// Options of `flood`.
#[derive(Debug, Args)]
pub(crate) struct Flood {
    /// Place of the CPU that does the work, among those that may be used.
    #[arg(long)]
    at_cpu: usize,
    /// Trains of packets in a burst.
    #[arg(long, default_value_t = 400)]
    burst: u64,
    /// Time from burst to burst.
    #[arg(long, default_value_t = 10_000)]
    every_us: u64,
    /// Ends after this many bursts, if not before.
    #[arg(long, default_value_t = 3_000)]
    bursts: usize,
}

/// Truth that `flood` prints: the packets that it sent, and softirq work of the CPU during that time.
#[derive(Debug, Serialize)]
pub(crate) struct FloodTruth {
    pid: u32,
    /// Rules that are true of this process: nobody reads what it sends.
    also_true: [&'static str; 1],
    cpu: usize,
    bursts: u64,
    trains: u64,
    /// Before each burst: `CLOCK_MONOTONIC`, and the CPU time of that CPU's ksoftirqd.
    ksoftirqd_ns: Vec<[u64; 2]>,
    /// Softirqs `NET_RX` of that CPU.
    net_rx: Option<u64>,
}

impl Flood {
    /// Sends packets over loopback, to keep softirqs busy.
    pub(crate) fn run(&self, context: &Context) -> Result<FloodTruth, LabError> {
        let cpu = context.cpu_at(self.at_cpu);
        let netns = Netns::new()?;
        netns.run(|| steer_to(cpu))??;
        let ksoftirqd = find_ksoftirqd(cpu);
        let before = net_rx(cpu);
        let ended = AtomicBool::new(false);
        let ksoftirqd_ns = thread::scope(|scope| {
            let send = || netns.run(|| self.send(&ended, ksoftirqd.as_deref()))?;
            let sending = start(scope, send)?;
            let ready = context.ready(0);
            wait_for_end();
            ended.store(true, Ordering::Relaxed);
            let readings = join_threads(vec![sending])?.concat();
            ready.map(|()| readings)
        })?;
        let bursts = ksoftirqd_ns.len() as u64;
        Ok(FloodTruth {
            pid: std::process::id(),
            also_true: ["udp_drops"],
            cpu,
            bursts,
            trains: bursts * self.burst,
            ksoftirqd_ns,
            net_rx: net_rx(cpu)
                .zip(before)
                .map(|(after, before)| after - before),
        })
    }

    /// Sends packets until the end; returns the CPU times of ksoftirqd.
    fn send(&self, ended: &AtomicBool, ksoftirqd: Option<&str>) -> Result<Vec<[u64; 2]>, LabError> {
        let hint = "UDP segmentation needs Linux 4.18";
        let problem = |why| LabError::os("send", "packets over loopback", why, hint);
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(problem)?;
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(problem)?;
        setsockopt(&sender, UdpGsoSegment, &i32::from(SEGMENT_BYTES))
            .map_err(|why| problem(why.into()))?;
        let to = receiver.local_addr().map_err(problem)?;
        sender.connect(to).map_err(problem)?;
        let train = vec![0x66; SEGMENTS * usize::from(SEGMENT_BYTES)];
        let mut readings = Vec::new();
        while readings.len() < self.bursts && !ended.load(Ordering::Relaxed) {
            let worked = ksoftirqd.and_then(ThreadCpu::from_directory);
            readings.push([now_ns(), worked.map_or(0, |thread| thread.cpu_ns)]);
            for _ in 0..self.burst {
                sender.send(&train).map_err(problem)?;
            }
            thread::sleep(Duration::from_micros(self.every_us));
        }
        Ok(readings)
    }
}

/// Lets that CPU receive what comes over the loopback of the calling thread's network namespace.
/// A sysfs of its own, in a mount namespace of this thread, shows that namespace's devices only.
fn steer_to(cpu: usize) -> Result<(), LabError> {
    const NONE: Option<&str> = None;
    let hidden = |what: &str, why| LabError::os("mount", what, why, HINT_ROOT);
    unshare(CloneFlags::CLONE_NEWNS).map_err(|why| hidden("in a namespace", why))?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(NONE, "/", NONE, private, NONE).map_err(|why| hidden("/ privately", why))?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), NONE)
        .map_err(|why| hidden("/sys", why))?;
    let path = "/sys/class/net/lo/queues/rx-0/rps_cpus";
    std::fs::write(path, cpu_mask(cpu))
        .map_err(|why| LabError::os("write", path, why, "use a kernel with CONFIG_RPS"))
}

/// Returns a set of one CPU as sysfs takes it: words of 32 bits, the highest first.
fn cpu_mask(cpu: usize) -> String {
    format!("{:x}{}", 1_u32 << (cpu % 32), ",00000000".repeat(cpu / 32))
}

/// Returns the softirqs `NET_RX` of a CPU since boot.
fn net_rx(cpu: usize) -> Option<u64> {
    let softirqs = std::fs::read_to_string("/proc/softirqs").ok()?;
    let line = softirqs
        .lines()
        .find_map(|line| line.trim().strip_prefix("NET_RX:"))?;
    line.split_ascii_whitespace().nth(cpu)?.parse().ok()
}

/// Returns the directory in `/proc` of a CPU's ksoftirqd.
fn find_ksoftirqd(cpu: usize) -> Option<String> {
    let name = format!("ksoftirqd/{cpu}\n");
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let directories = entries.map(|entry| entry.path().display().to_string());
    let mut named = directories.filter(|directory| {
        std::fs::read_to_string(format!("{directory}/comm")).is_ok_and(|comm| comm == name)
    });
    named.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rps_mask_of_high_cpu_has_several_words() {
        assert_eq!(cpu_mask(0), "1");
        assert_eq!(cpu_mask(31), "80000000");
        assert_eq!(cpu_mask(33), "2,00000000");
        assert_eq!(cpu_mask(64), "1,00000000,00000000");
    }
}
