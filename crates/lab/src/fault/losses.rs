//! Scenes in which TCP waits for a loss to be found, or takes for a loss what is none.

use super::catalogue::path;
use super::scene::{Claim, Dice, End, Of, Scene, Variant};
use crate::DirectionConfig;
use crate::wire::{HoldWindow, LossWindow};

/// The path stands still for longer than a timeout, now and then, and loses nothing.
pub(super) fn delay_spikes(variant: Variant, dice: &mut Dice) -> Scene {
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

/// Requests spread over connections that never have more than one segment out: what is lost waits
/// for a timer.
pub(super) fn thin_connections(variant: Variant, dice: &mut Dice) -> Scene {
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

/// Large messages with pauses between them, over a queue that holds less than a window: without slow
/// start after idle the whole window leaves at once.
pub(super) fn burst_after_idle(variant: Variant, dice: &mut Dice) -> Scene {
    let rtt_ms = dice.between(50, 80);
    let pause_us = dice.between(350_000, 450_000);
    let rate_bps = 40_000_000;
    let bdp_bytes = rate_bps / 8 * rtt_ms / 1000;
    let link = DirectionConfig {
        rate_bps: Some(rate_bps),
        queue_bytes: bdp_bytes / 3,
        ..path(rtt_ms)
    };
    let request = bdp_bytes * 3 / 2;
    let mut scene = Scene::over(
        link,
        format!("reply-server --request {request}"),
        format!("request-reply --request {request} --rounds 11 --pause-us {pause_us}"),
    );
    let after_idle = if variant == Variant::Faulty { "0" } else { "1" };
    let name = "net.ipv4.tcp_slow_start_after_idle";
    scene.sysctls.push((End::Client, name, after_idle));
    scene
}

/// Whole requests are lost, with the probe that follows them. After the timeout one segment is sent
/// again, and its receiver, who is about to answer, holds its ACK back.
pub(super) fn delayed_ack_after_timeout(variant: Variant, dice: &mut Dice) -> Scene {
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
            end: End::Client,
            of: Of::All,
        });
    }
    scene
}
