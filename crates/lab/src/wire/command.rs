//! `whylat lab wire`: a wire that any program can be run over.
//!
//! In: options. Out: one JSON line that says how to enter both namespaces, then, when
//! stdin closes, one with the counters. Nothing is left behind afterwards.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use serde_json::{Value, json};

use super::{BurstLoss, DirectionConfig, WindowScale, Wire, WireConfig, write_log};
use crate::error::LabError;
use crate::netns::Netns;
use crate::output::print_json;

/// Two network namespaces joined by a path with delay, loss, rate and a queue.
/// Holds them until stdin closes.
#[derive(Debug, Parser)]
#[command(
    name = "whylat lab wire",
    no_binary_name = true,
    after_help = "\
Examples:
  whylat lab wire --delay-us 5000 --loss-ppm 1000
  whylat lab wire --rate-bps 100000000 --queue-bytes 262144"
)]
pub struct Options {
    /// Delay each way, in microseconds.
    #[arg(long, default_value_t = 0)]
    delay_us: u64,
    /// Extra random delay each way, up to this many microseconds.
    #[arg(long, default_value_t = 0)]
    jitter_us: u64,
    /// Random loss from a to b, in parts per million.
    #[arg(long, default_value_t = 0)]
    loss_ppm: u32,
    /// Random loss from b to a, in parts per million.
    #[arg(long, default_value_t = 0)]
    loss_back_ppm: u32,
    /// Chance of each packet to begin a burst of losses, each way, in parts per million.
    #[arg(long, default_value_t = 0)]
    burst_ppm: u32,
    /// Mean length of a burst in packets.
    #[arg(long, default_value_t = 4)]
    burst_packets: u32,
    /// Window scale of SYNs from a to b: `remove` it, or lower the shift by so much.
    #[arg(long)]
    window_scale: Option<WindowScale>,
    /// Window scale of SYNs from b to a.
    #[arg(long)]
    window_scale_back: Option<WindowScale>,
    /// Rate each way, in bits per second.
    #[arg(long)]
    rate_bps: Option<u64>,
    /// Bytes that may wait for the rate, each way.
    #[arg(long, default_value_t = 1 << 20)]
    queue_bytes: u64,
    /// MTU of the devices.
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
    /// Seed of loss and jitter.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Congestion control of both ends: cubic, bbr, reno.
    #[arg(long)]
    congctl: Option<String>,
    /// Write every packet to this file, one JSON object a line.
    #[arg(long)]
    log: Option<PathBuf>,
}

impl Options {
    /// Returns the configuration that the options give.
    fn config(&self) -> WireConfig {
        let a_to_b = DirectionConfig {
            delay_us: self.delay_us,
            jitter_us: self.jitter_us,
            loss_ppm: self.loss_ppm,
            rate_bps: self.rate_bps,
            queue_bytes: self.queue_bytes,
            bursts: (self.burst_ppm > 0).then_some(BurstLoss {
                begin_ppm: self.burst_ppm,
                packets: self.burst_packets,
            }),
            window_scale: self.window_scale,
            ..DirectionConfig::default()
        };
        let b_to_a = DirectionConfig {
            loss_ppm: self.loss_back_ppm,
            window_scale: self.window_scale_back,
            ..a_to_b.clone()
        };
        let defaults = WireConfig::default();
        WireConfig {
            a_to_b,
            b_to_a,
            seed: self.seed,
            mtu: self.mtu,
            congctl: self.congctl.clone(),
            log_packets: if self.log.is_some() {
                defaults.log_packets
            } else {
                0
            },
            ..defaults
        }
    }
}

/// Returns the options of `whylat lab wire`.
pub fn declaration() -> clap::Command {
    Options::command()
}

/// Runs `whylat lab wire` with the arguments after these words.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match Options::try_parse_from(args) {
        Ok(options) => options,
        Err(usage) => return crate::output::print_usage(&usage),
    };
    match hold(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Makes a wire, prints its names, and keeps it until the input ends.
fn hold(options: &Options) -> Result<(), LabError> {
    // Opened first: a path that cannot be written must not cost a whole run.
    let log_file = options.log.as_ref().map(create).transpose()?;
    let wire = Wire::start(options.config())?;
    let end = |netns: &Netns, address: &dyn ToString| -> Value {
        json!({
            "netns": netns.path(),
            "inode": netns.inode(),
            "address": address.to_string(),
            "enter": format!("nsenter --net={}", netns.path().display()),
        })
    };
    print_json(&json!({
        "ready": std::process::id(),
        "a": end(&wire.a, &wire.address_a()),
        "b": end(&wire.b, &wire.address_b()),
    }))?;
    // Only the end of stdin counts, not what comes over it.
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    let (stats, log) = wire.stop();
    if let Some(file) = log_file {
        write_log(&log, &mut BufWriter::new(file)).map_err(|why| {
            LabError::os("write", "the packet log", why, "check the disk's space")
        })?;
    }
    print_json(&json!({ "stats": stats }))
}

/// Creates a file that a command writes at its end.
pub(crate) fn create(path: &PathBuf) -> Result<File, LabError> {
    let hint = "check the directory";
    File::create(path).map_err(|why| LabError::os("create", path.display().to_string(), why, hint))
}
