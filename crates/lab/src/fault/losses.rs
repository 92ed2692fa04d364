//! Scenes in which the path loses, delays or reorders what is sent.

use super::scene::{
    Claim, ClaimSubject, ConnectionEnd, Scene, SeededDice, Variant, make_link, path,
};
use crate::DirectionConfig;
use crate::wire::{BurstLoss, HoldWindow, LossWindow};

/// The path stalls for longer than a timeout, now and then, and loses nothing.
pub(super) fn delay_spikes(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(5, 40);
    let hold = HoldWindow {
        after_us: dice.between(300_000, 500_000),
        for_us: dice.between(600_000, 800_000),
        every_us: 1_200_000,
    };
    let client = "stream --seconds 3.5 --write-size 20000 --pause-us 20000";
    let mut scene = Scene::over(path(rtt_ms), "sink", client);
    if variant == Variant::Faulty {
        scene.forward.holds = vec![hold];
    }
    scene
}

/// Plants requests over many connections with one segment in flight each: a loss waits for a timer.
pub(super) fn thin_connections(variant: Variant, dice: &mut SeededDice) -> Scene {
    let connections = dice.between(2, 6);
    let rounds = dice.between(60, 90);
    let mut scene = Scene::over(
        path(dice.between(5, 20)),
        format!("reply-server --connections {connections}"),
        format!("request-reply --concurrency {connections} --rounds {rounds}"),
    );
    if variant == Variant::Faulty {
        // Every eleventh: each connection has several.
        let lost = (1..2 * connections * rounds).filter(|index| index % 11 == 0);
        scene.forward.lose_data = lost.map(|index| index..index + 1).collect();
    }
    scene
}

/// Plants large messages with pauses, over a queue that holds less than a window. A message is less
/// than what path and queue hold together, so that nothing else overflows the queue. A pause is two
/// timeouts or more: each halves the window where slow start is on (tcp_cwnd_restart()); the path
/// is long, because a timeout is 200 ms longer than it.
pub(super) fn burst_after_idle(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(150, 200);
    let pause_us = 450_000 + 3_000 * rtt_ms;
    let rate_bps = 20_000_000;
    let bdp_bytes = rate_bps / 8 * rtt_ms / 1000;
    let link = DirectionConfig {
        rate_bps: Some(rate_bps),
        queue_bytes: bdp_bytes / 2,
        ..path(rtt_ms)
    };
    let request = bdp_bytes * 5 / 4;
    let mut scene = Scene::over(
        link,
        format!("reply-server --request {request}"),
        format!("request-reply --request {request} --rounds 7 --pause-us {pause_us}"),
    );
    let after_idle = if variant == Variant::Faulty { "0" } else { "1" };
    let name = "net.ipv4.tcp_slow_start_after_idle";
    if variant != Variant::Faulty {
        let rule = (ConnectionEnd::Client, "slow_start_after_idle");
        scene.pair.also_true.push(rule);
    }
    scene
        .sysctls
        .push((ConnectionEnd::Client, name, after_idle));
    scene
}

/// Plants lost requests; after the timeout, the receiver delays the ACK of the retransmitted
/// segment.
pub(super) fn delayed_ack_after_timeout(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(2, 10);
    let request = dice.between(4_000, 12_000);
    let gap = LossWindow {
        after_us: dice.between(200_000, 400_000),
        for_us: 120_000,
        every_us: dice.between(450_000, 550_000),
        loss_ppm: 1_000_000,
    };
    let mut scene = Scene::over(
        path(rtt_ms),
        format!("reply-server --request {request}"),
        format!("request-reply --request {request} --rounds 101 --pause-us 20000"),
    );
    if variant == Variant::Faulty {
        scene.forward.windows = vec![gap];
        scene.pair.claims.push(Claim {
            rule: "retransmit_timeouts",
            end: ConnectionEnd::Client,
            of: ClaimSubject::All,
        });
    }
    scene
}

/// Plants a path that loses packets at random.
pub(super) fn random_loss(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(15, 40);
    let mut scene = Scene::over(make_link(rtt_ms, 50), "sink", "stream --seconds 4");
    if variant == Variant::Faulty {
        scene.forward.loss_ppm = 10_000;
    }
    scene
}

/// Plants a path that loses many packets in a row.
pub(super) fn burst_loss(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(15, 40);
    // Less than 2 % in all: BBR does not mind.
    let bursts = BurstLoss {
        begin_ppm: dice.between(1_500, 2_500) as u32,
        packets: dice.between(3, 6) as u32,
    };
    let mut scene = Scene::over(make_link(rtt_ms, 50), "sink", "stream --seconds 4");
    if variant == Variant::Faulty {
        scene.forward.bursts = Some(bursts);
    }
    scene
}

/// Plants a path with jitter that reorders packets; in the twin a packet waits for the one before
/// it. The queue holds all that congestion control gets to send in this time: nothing is lost.
pub(super) fn reordering(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(10, 30);
    let mut scene = Scene::over(make_link(rtt_ms, 50), "sink", "stream --seconds 4");
    scene.forward.queue_bytes = 4 << 20;
    scene.forward.jitter_us = rtt_ms * 1_000;
    scene.forward.jitter_reorders = variant == Variant::Faulty;
    scene
}

/// Plants a path that loses the last packet of a message.
pub(super) fn tail_loss(variant: Variant, dice: &mut SeededDice) -> Scene {
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

/// Plants a path that loses all packets for a time.
pub(super) fn black_hole(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(10, 40);
    let hole = LossWindow {
        after_us: dice.between(300_000, 700_000),
        for_us: 1_000_000,
        every_us: 0,
        loss_ppm: 1_000_000,
    };
    let mut scene = Scene::over(make_link(rtt_ms, 50), "sink", "stream --bytes 8000009");
    if variant == Variant::Faulty {
        scene.lasts_us = Some(hole.after_us..hole.after_us + hole.for_us);
        scene.forward.windows = vec![hole];
    }
    scene
}

/// Plants a path that loses SYNs.
pub(super) fn syn_loss(variant: Variant, dice: &mut SeededDice) -> Scene {
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
