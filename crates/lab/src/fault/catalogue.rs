//! The list of faults.

use super::scene::{Claim, Dice, End, Fault, Of, Pair, Scene, Variant};
use super::{losses, programs};
use crate::DirectionConfig;
use crate::wire::{BurstLoss, LossWindow, WindowScale};

/// The fault of this name.
pub fn find(name: &str) -> Option<&'static Fault> {
    FAULTS.iter().find(|fault| fault.name == name)
}

/// All faults.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "write_write_read",
        summary: "a request in two small writes waits for the receiver's ACK timer",
        source: "Nagle's algorithm with delayed ACKs; SNAP 6.1",
        claim: |_| sending("nagle_delayed_ack"),
        mendable: true,
        scene: write_write_read,
    },
    Fault {
        name: "tiny_send_buffer",
        summary: "a send buffer far smaller than what the path holds",
        source: "SNAP 4.1 and 6.3",
        claim: |_| sending("send_buffer_limited"),
        mendable: true,
        scene: tiny_send_buffer,
    },
    Fault {
        name: "tiny_receive_buffer",
        summary: "a receive buffer far smaller than what the path holds",
        source: "SNAP 4.1 and 6.3",
        claim: |_| sending("receive_buffer_limited"),
        mendable: true,
        scene: tiny_receive_buffer,
    },
    Fault {
        name: "slow_reader",
        summary: "the receiving program pauses between its reads",
        source: "SNAP 6.3",
        claim: |_| sending("slow_reader"),
        mendable: false,
        scene: slow_reader,
    },
    Fault {
        name: "random_loss",
        summary: "one packet in a hundred is lost; BBR does not feel it",
        source: "SNAP 4.1",
        claim: |congctl| sending("fast_retransmits").filter(|_| congctl != "bbr"),
        mendable: false,
        scene: random_loss,
    },
    Fault {
        name: "reordering",
        summary: "packets overtake each other: Linux learns it, and nothing is wrong",
        source: "RFC 8985 section 6.2: the reordering window",
        claim: |_| sending("path_limited"),
        mendable: false,
        scene: reordering,
    },
    Fault {
        name: "tail_loss",
        summary: "single requests are lost, and only a timer notices",
        source: "SNAP 6.1",
        claim: |_| sending("retransmit_timeouts"),
        mendable: false,
        scene: tail_loss,
    },
    Fault {
        name: "black_hole",
        summary: "the path swallows everything for a second",
        source: "SNAP 4.1",
        claim: |_| sending("retransmit_timeouts"),
        mendable: false,
        scene: black_hole,
    },
    Fault {
        name: "syn_loss",
        summary: "the first SYNs are lost, and connecting takes seconds",
        source: "RFC 6298 section 2: the first timeout is 1 s",
        claim: |_| {
            Some(Claim {
                rule: "syn_retries",
                end: End::Client,
                of: Of::LateToConnect,
            })
        },
        mendable: false,
        scene: syn_loss,
    },
    Fault {
        name: "delay_spikes",
        summary: "the path stands still now and then, and what is late is taken for lost",
        source: "RFC 5682: spurious timeouts",
        claim: |_| sending("spurious_retransmits"),
        mendable: false,
        scene: losses::delay_spikes,
    },
    Fault {
        name: "thin_connections",
        summary: "requests over several connections, each too thin to see a loss before a timer does",
        source: "SNAP 6.1",
        claim: |_| {
            Some(Claim {
                rule: "thin_stream_timeouts",
                end: End::Client,
                of: Of::Stalled,
            })
        },
        mendable: false,
        scene: losses::thin_connections,
    },
    Fault {
        name: "burst_after_idle",
        summary: "a whole old window at once after a pause overflows a queue; BBR paces it",
        source: "SNAP 6.2",
        claim: |congctl| sending("burst_after_idle").filter(|_| congctl != "bbr"),
        mendable: false,
        scene: losses::burst_after_idle,
    },
    Fault {
        name: "delayed_ack_after_timeout",
        summary: "after a timeout the receiver holds back the ACK of the one segment sent",
        source: "SNAP figure 6",
        claim: |_| sending("delayed_ack_after_timeout"),
        mendable: false,
        scene: losses::delayed_ack_after_timeout,
    },
    Fault {
        name: "incast",
        summary: "many workers answer at once over a queue that holds but a part of it",
        source: "SNAP 4.1",
        claim: |_| serving("incast"),
        mendable: false,
        scene: programs::incast,
    },
    Fault {
        name: "listen_overflow",
        summary: "connections come faster than the server accepts them",
        source: "tcp_conn_request(): the accept queue",
        claim: |_| {
            Some(Claim {
                rule: "listen_overflow",
                end: End::Server,
                of: Of::Listener,
            })
        },
        mendable: false,
        scene: programs::listen_overflow,
    },
    Fault {
        name: "waiting_proxy",
        summary: "a proxy of one thread waits until the far side has acknowledged",
        source: "SNAP figure 7",
        claim: |_| {
            Some(Claim {
                rule: "proxy_stall",
                end: End::Proxy,
                of: Of::Nth(0),
            })
        },
        mendable: false,
        scene: programs::waiting_proxy,
    },
    Fault {
        name: "head_of_line",
        summary: "a server of one thread waits for a slow client, and the others for it",
        source: "SNAP 6.1",
        claim: |_| {
            Some(Claim {
                rule: "proxy_stall",
                end: End::Server,
                of: Of::WithClient(0),
            })
        },
        mendable: false,
        scene: programs::head_of_line,
    },
    Fault {
        name: "path_limited",
        summary: "the path gives no more: nothing is wrong with either end",
        source: "SNAP 3.2: the network",
        claim: |_| sending("path_limited"),
        mendable: false,
        scene: path_limited,
    },
    Fault {
        name: "one_among_200",
        summary: "one connection stalls as write_write_read does, among 200 that are healthy",
        source: "SNAP 6",
        claim: |_| sending("nagle_delayed_ack"),
        mendable: true,
        scene: one_among_200,
    },
    Fault {
        name: "two_faults",
        summary: "one connection stalls as write_write_read does, another as tiny_receive_buffer",
        source: "SNAP 6",
        claim: |_| sending("nagle_delayed_ack"),
        mendable: false,
        scene: two_faults,
    },
    Fault {
        name: "logging_client",
        summary: "short records wait for the ACK timer of a receiver that answers a few of them",
        source: "SNAP 6.2: the logging application",
        claim: |_| sending("nagle_delayed_ack"),
        mendable: false,
        scene: logging_client,
    },
    Fault {
        name: "window_scale_lost",
        summary: "a middlebox changes the window scale: large windows are believed to be small",
        source: "SNAP 6.3: receiver window negotiation",
        claim: |_| sending("receive_buffer_limited"),
        mendable: false,
        scene: window_scale_lost,
    },
    Fault {
        name: "buffer_beyond_window",
        summary: "a send buffer many times the window that the receiver can announce",
        source: "SNAP 5.3",
        claim: |_| sending("send_buffer_exceeds_window"),
        mendable: false,
        scene: buffer_beyond_window,
    },
    Fault {
        name: "odd_segment",
        summary: "a send buffer that one segment fills, whose ACK the receiver withholds",
        source: "SNAP 6.2: the send buffer set to zero",
        claim: |_| sending("delayed_ack"),
        mendable: true,
        scene: odd_segment,
    },
    Fault {
        name: "burst_loss",
        summary: "a few packets in a row are lost; BBR does not feel it",
        source: "Gilbert, 1960; SNAP 4.1",
        claim: |congctl| sending("fast_retransmits").filter(|_| congctl != "bbr"),
        mendable: false,
        scene: burst_loss,
    },
    Fault {
        name: "starved_server",
        summary: "busy loops of others share the CPU of a server that computes",
        source: "run-queue delay: Documentation/scheduler/sched-stats.rst",
        claim: |_| serving("cpu_contention"),
        mendable: false,
        scene: starved_server,
    },
    Fault {
        name: "starved_reader",
        summary: "busy loops of others share the CPU of a reader, which then is too slow",
        source: "SNAP 6.3; run-queue delay: Documentation/scheduler/sched-stats.rst",
        claim: |_| sending("slow_reader"),
        mendable: false,
        scene: starved_reader,
    },
    Fault {
        name: "softirq_flood",
        summary: "packets for others keep the kernel busy on the CPU of a server that computes",
        source: "MAX_SOFTIRQ_TIME of kernel/softirq.c; Documentation/networking/scaling.rst: RPS",
        claim: |_| serving("softirq_delay"),
        mendable: false,
        scene: softirq_flood,
    },
    Fault {
        name: "server_computes",
        summary: "the server computes before it answers",
        source: "SNAP 3.2: the sender's application",
        claim: |_| serving("sender_app_limited"),
        mendable: false,
        scene: server_computes,
    },
    Fault {
        name: "client_thinks",
        summary: "the client computes between its requests",
        source: "SNAP 3.2: the sender's application",
        claim: |_| sending("sender_app_limited"),
        mendable: false,
        scene: client_thinks,
    },
];

fn sending(rule: &'static str) -> Option<Claim> {
    Some(Claim {
        rule,
        end: End::Client,
        of: Of::All,
    })
}

fn serving(rule: &'static str) -> Option<Claim> {
    Some(Claim {
        rule,
        end: End::Server,
        of: Of::All,
    })
}

/// A word that only this variant has.
pub(super) fn word(there: bool, word: &str) -> &str {
    if there { word } else { "" }
}

/// A path of this many milliseconds there and back.
pub(super) fn path(rtt_ms: u64) -> DirectionConfig {
    DirectionConfig::delay(rtt_ms * 500)
}

/// The same with a rate, and a queue of one bandwidth-delay product or 64 KiB.
pub(super) fn link(rtt_ms: u64, rate_mbps: u64) -> DirectionConfig {
    let rate_bps = rate_mbps * 1_000_000;
    DirectionConfig {
        rate_bps: Some(rate_bps),
        queue_bytes: (rate_bps / 8 * rtt_ms / 1000).max(64 << 10),
        ..path(rtt_ms)
    }
}

fn write_write_read(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let (header, body) = (dice.between(8, 40), dice.between(50, 200));
    let cure = match variant {
        Variant::Faulty => "",
        Variant::Healthy => "--one-write",
        Variant::Mended => "--nodelay",
    };
    Scene::over(
        path(rtt_ms),
        format!("reply-server --request {}", header + body),
        format!("write-write-read --rounds 41 --header {header} --body {body} {cure}"),
    )
}

fn tiny_send_buffer(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(20, 80);
    let bytes = dice.between(4, 16) << 10;
    let option = format!("--sndbuf {bytes}");
    let option = word(variant == Variant::Faulty, &option);
    Scene::over(
        link(rtt_ms, 50),
        "sink",
        format!("stream --seconds 2 {option}"),
    )
}

fn tiny_receive_buffer(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(20, 80);
    let bytes = dice.between(4, 16) << 10;
    let option = format!("--rcvbuf {bytes}");
    let option = word(variant == Variant::Faulty, &option);
    Scene::over(
        link(rtt_ms, 50),
        format!("sink {option}"),
        "stream --seconds 2",
    )
}

fn slow_reader(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(1, 20);
    // 16 KiB at a time: less than half of what the path could bring. The buffer is larger than
    // the path needs.
    let pause_us = dice.between(30_000, 60_000);
    let option = format!("--read-size 16384 --read-pause-us {pause_us}");
    let option = word(variant == Variant::Faulty, &option);
    Scene::over(
        link(rtt_ms, 10),
        format!("sink --rcvbuf 65536 {option}"),
        "stream --bytes 700001",
    )
}

fn random_loss(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(15, 40);
    let mut scene = Scene::over(link(rtt_ms, 50), "sink", "stream --seconds 4");
    if variant == Variant::Faulty {
        scene.forward.loss_ppm = 10_000;
    }
    scene
}

/// The same jitter in both; in the twin a packet waits for the one before it.
fn reordering(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(10, 30);
    let mut scene = Scene::over(link(rtt_ms, 50), "sink", "stream --seconds 4");
    scene.forward.jitter_us = rtt_ms * 1_000;
    scene.forward.jitter_reorders = variant == Variant::Faulty;
    scene
}

fn tail_loss(variant: Variant, dice: &mut Dice) -> Scene {
    const ROUNDS: u64 = 67;
    let rtt_ms = dice.between(5, 30);
    let every = dice.between(4, 8);
    let client = format!("request-reply --rounds {ROUNDS}");
    let mut scene = Scene::over(path(rtt_ms), "reply-server", client);
    if variant == Variant::Faulty {
        let lost = (1..2 * ROUNDS).filter(|index| index % every == 0);
        scene.forward.lose_data = lost.map(|index| index..index + 1).collect();
    }
    scene
}

fn black_hole(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(10, 40);
    let hole = LossWindow {
        after_us: dice.between(300_000, 700_000),
        for_us: 1_000_000,
        every_us: 0,
        loss_ppm: 1_000_000,
    };
    let mut scene = Scene::over(link(rtt_ms, 50), "sink", "stream --bytes 8000009");
    if variant == Variant::Faulty {
        scene.lasts_us = Some(hole.after_us..hole.after_us + hole.for_us);
        scene.forward.windows = vec![hole];
    }
    scene
}

fn syn_loss(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(1, 40);
    // The second goes after 1 s, the third after 2 s, or 3 s where timeouts double at once.
    let swallowed = LossWindow {
        after_us: 0,
        for_us: [500_000, 2_000_000][dice.between(0, 1) as usize],
        every_us: 0,
        loss_ppm: 1_000_000,
    };
    let mut scene = Scene::over(path(rtt_ms), "reply-server", "request-reply --rounds 31");
    if variant == Variant::Faulty {
        scene.forward.windows = vec![swallowed];
    }
    scene
}

/// The twin sends in pieces, and less than the path would take.
fn path_limited(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(5, 40);
    let rate_mbps = dice.between(10, 50);
    let rest = "--write-size 4096 --pause-us 20000";
    let rest = word(variant == Variant::Healthy, rest);
    Scene::over(
        link(rtt_ms, rate_mbps),
        "sink",
        format!("stream --seconds 3 {rest}"),
    )
}

fn client_thinks(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let pause_us = dice.between(10_000, 30_000);
    let option = format!("--pause-us {pause_us}");
    let option = word(variant == Variant::Faulty, &option);
    Scene::over(
        path(rtt_ms),
        "reply-server",
        format!("request-reply --rounds 71 {option}"),
    )
}

fn one_among_200(variant: Variant, dice: &mut Dice) -> Scene {
    let mut scene = write_write_read(variant, dice);
    let pause_us = dice.between(30_000, 70_000);
    scene.others = vec![Pair::new(
        "reply-server --connections 200",
        format!("request-reply --concurrency 200 --rounds 31 --pause-us {pause_us}"),
    )];
    scene
}

/// In the twin, too, the other connection is healthy.
fn two_faults(variant: Variant, dice: &mut Dice) -> Scene {
    let mut scene = write_write_read(variant, dice);
    let bytes = dice.between(4, 8) << 10;
    let option = format!("--rcvbuf {bytes}");
    let faulty = variant == Variant::Faulty;
    let mut other = Pair::new(
        format!("sink {}", word(faulty, &option)),
        // As much as the small buffer takes in a second or two.
        "stream --bytes 500009",
    );
    let claim = sending("receive_buffer_limited").filter(|_| faulty);
    other.claims.extend(claim);
    // No faster than its reader surely is; the queue takes all of it.
    scene.forward.rate_bps = Some(20_000_000);
    scene.others = vec![other];
    scene
}

fn server_computes(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let compute_us = dice.between(10_000, 30_000);
    let option = format!("--compute-us {compute_us}");
    let option = word(variant == Variant::Faulty, &option);
    Scene::over(
        path(rtt_ms),
        format!("reply-server {option}"),
        "request-reply --rounds 71",
    )
}

/// A record joins the next one within the ACK timer's 40 ms, but they do not fill a segment: then the
/// receiver would answer at once. Records written back to back do not stall.
fn logging_client(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let pause_us = dice.between(3_000, 6_000);
    let seed = dice.between(1, 1_000);
    let faulty = variant == Variant::Faulty;
    Scene::over(
        path(rtt_ms),
        format!("log-server {}", word(faulty, "--answer-every 50")),
        format!("log-client --records 700 --seed {seed} --pause-us {pause_us}"),
    )
}

/// The client believes in 1/8 to 1/32 of the server's windows: still more than a segment, below which
/// only timers would send. Or the server never learns that the client has a scale, and both do without.
fn window_scale_lost(variant: Variant, dice: &mut Dice) -> Scene {
    // The path holds more than the 64 KiB that a window can be without a scale.
    let rtt_ms = dice.between(40, 80);
    let lower = dice.between(2, 5) as u8;
    let mut scene = Scene::over(link(rtt_ms, 20), "sink", "stream --seconds 2");
    if variant == Variant::Faulty {
        match lower {
            2 => scene.forward.window_scale = Some(WindowScale::Remove),
            _ => scene.back.window_scale = Some(WindowScale::Lower(lower)),
        }
    }
    scene
}

/// The window is more than the path holds three times over, so that nothing is slow.
fn buffer_beyond_window(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(2, 6);
    let window_bytes = dice.between(24, 60) << 10;
    let send_bytes = match variant {
        // As far as net.core.wmem_max lets it; the kernel doubles it.
        Variant::Faulty => 1 << 20,
        _ => window_bytes,
    };
    Scene::over(
        link(rtt_ms, 10),
        format!("sink --rcvbuf {window_bytes}"),
        format!("stream --seconds 2 --sndbuf {send_bytes}"),
    )
}

/// Only with jumbo frames: room for the next write is there when two thirds of the buffer are free
/// (`sk_stream_write_space`), and of the least buffer, 4.6 kB, no smaller segment takes so much.
fn odd_segment(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let (header, body) = (dice.between(4_500, 8_900), dice.between(1_000, 8_900));
    let option = word(variant == Variant::Faulty, "--sndbuf 1");
    let mut scene = Scene::over(
        path(rtt_ms),
        format!("reply-server --request {}", header + body),
        format!("write-write-read --rounds 41 --header {header} --body {body} --nodelay {option}"),
    );
    scene.mtu = 9_000;
    scene
}

fn burst_loss(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(15, 40);
    // Less than 2 % in all: BBR does not mind.
    let bursts = BurstLoss {
        begin_ppm: dice.between(1_500, 2_500) as u32,
        packets: dice.between(3, 6) as u32,
    };
    let mut scene = Scene::over(link(rtt_ms, 50), "sink", "stream --seconds 4");
    if variant == Variant::Faulty {
        scene.forward.bursts = Some(bursts);
    }
    scene
}

/// A server on the second CPU, where each request takes CPU time, and a client on the first.
fn computing_server(dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(1, 5);
    let burn_us = dice.between(3_000, 6_000);
    Scene::over(
        path(rtt_ms),
        format!("reply-server --cpu 1 --burn-us {burn_us}"),
        "request-reply --cpu 0 --rounds 211",
    )
}

fn starved_server(variant: Variant, dice: &mut Dice) -> Scene {
    let mut scene = computing_server(dice);
    let threads = dice.between(2, 3);
    if variant == Variant::Faulty {
        scene.beside = vec![format!("burn --cpu 1 --threads {threads}")];
    }
    scene
}

/// Its data takes two fifths of a CPU to read. Beside four busy loops it gets a fifth.
fn starved_reader(variant: Variant, dice: &mut Dice) -> Scene {
    const RATE_MBPS: u64 = 10;
    let rtt_ms = dice.between(1, 20);
    let burn_us = 400_000 * 8 / RATE_MBPS;
    let mut scene = Scene::over(
        link(rtt_ms, RATE_MBPS),
        format!("sink --cpu 1 --rcvbuf 65536 --burn-us-per-mb {burn_us}"),
        "stream --cpu 0 --bytes 2000003",
    );
    if variant == Variant::Faulty {
        scene.pair.claims.extend(serving("cpu_contention"));
        scene.beside = vec!["burn --cpu 1 --threads 4".to_owned()];
    }
    scene
}

fn softirq_flood(variant: Variant, dice: &mut Dice) -> Scene {
    let mut scene = computing_server(dice);
    if variant == Variant::Faulty {
        scene.beside = vec!["flood --cpu 0 --at-cpu 1".to_owned()];
    }
    scene
}
