//! Scenes in which others have the CPU.

use super::scene::{Scene, SeededDice, Variant, claim_acceptor, make_link, path};

/// Makes a server on the second CPU that computes for each request, and a client on the first.
fn computing_server(dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(1, 5);
    let burn_us = dice.between(3_000, 6_000);
    Scene::over(
        path(rtt_ms),
        format!("reply-server --cpu 1 --burn-us {burn_us}"),
        "request-reply --cpu 0 --rounds 211",
    )
}

/// Plants other work on the server's CPU.
pub(super) fn starved_server(variant: Variant, dice: &mut SeededDice) -> Scene {
    let mut scene = computing_server(dice);
    let threads = dice.between(2, 3);
    if variant == Variant::Faulty {
        scene.beside = vec![format!("burn --cpu 1 --threads {threads}")];
    }
    scene
}

/// Plants eight busy loops beside a reader that needs a fifth of a CPU. Beside eight busy loops it
/// gets a ninth. The buffer holds what comes in a sixth of a second: a reader that is late by less
/// holds nobody up.
pub(super) fn starved_reader(variant: Variant, dice: &mut SeededDice) -> Scene {
    const RATE_MBPS: u64 = 10;
    let rtt_ms = dice.between(1, 20);
    let burn_us = 200_000 * 8 / RATE_MBPS;
    let mut scene = Scene::over(
        make_link(rtt_ms, RATE_MBPS),
        format!("sink --cpu 1 --rcvbuf 196608 --burn-us-per-mb {burn_us}"),
        "stream --cpu 0 --bytes 2000003",
    );
    if variant == Variant::Faulty {
        scene.pair.claims.extend(claim_acceptor("cpu_contention"));
        scene.beside = vec!["burn --cpu 1 --threads 8".to_owned()];
    }
    scene
}

/// Plants a flood of packets on the server's CPU.
pub(super) fn softirq_flood(variant: Variant, dice: &mut SeededDice) -> Scene {
    let mut scene = computing_server(dice);
    let at_cpu = match variant {
        Variant::Faulty => 1,
        Variant::Fixed => 0,
        Variant::Healthy => return scene,
    };
    scene.beside = vec![format!("flood --cpu 0 --at-cpu {at_cpu}")];
    scene
}
