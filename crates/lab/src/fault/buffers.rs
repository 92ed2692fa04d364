//! Scenes in which a buffer or a window is smaller, or larger, than the path needs.

use super::scene::{Scene, SeededDice, Variant, make_link, path, variant_word};
use crate::wire::WindowScale;

/// Plants a send buffer that is too small for the path.
pub(super) fn tiny_send_buffer(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(20, 80);
    let bytes = dice.between(4, 16) << 10;
    let option = format!("--sndbuf {bytes}");
    let option = variant_word(variant == Variant::Faulty, &option);
    let mut scene = Scene::over(
        make_link(rtt_ms, 50),
        "sink",
        format!("stream --seconds 2 {option}"),
    );
    // Some kernels let a writer queue far more than the buffer now and then (by `ss -m` 544 KB, of 24;
    // Linux 6.18): the path's queue overflows.
    scene.lossless = variant == Variant::Faulty;
    scene
}

/// Plants a receive buffer that is too small for the path.
pub(super) fn tiny_receive_buffer(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(20, 80);
    let bytes = dice.between(4, 16) << 10;
    let option = format!("--rcvbuf {bytes}");
    let option = variant_word(variant == Variant::Faulty, &option);
    Scene::over(
        make_link(rtt_ms, 50),
        format!("sink {option}"),
        "stream --seconds 2",
    )
}

/// Plants a receiver that reads too slowly.
pub(super) fn slow_reader(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(1, 20);
    // 16 KiB at a time: less than half of what the path could bring. The buffer is larger than
    // the path needs. It computes: one that sleeps would keep a pace of its own.
    let burn_us = dice.between(30_000, 60_000) * 1_000_000 / 16_384;
    let option = format!("--read-size 16384 --burn-us-per-mb {burn_us}");
    let option = variant_word(variant == Variant::Faulty, &option);
    Scene::over(
        make_link(rtt_ms, 10),
        format!("sink --rcvbuf 65536 {option}"),
        "stream --bytes 700001",
    )
}

/// The client believes in 1/8 to 1/32 of the server's windows: still more than a segment, below which
/// only timers would send. Or the server never learns that the client has a scale, and both do without.
pub(super) fn window_scale_lost(variant: Variant, dice: &mut SeededDice) -> Scene {
    // The path holds more than the 64 KiB that a window can be without a scale.
    let rtt_ms = dice.between(40, 80);
    let lower = dice.between(2, 5) as u8;
    let mut scene = Scene::over(make_link(rtt_ms, 20), "sink", "stream --seconds 2");
    if variant == Variant::Faulty {
        match lower {
            2 => scene.forward.window_scale = Some(WindowScale::Remove),
            _ => scene.back.window_scale = Some(WindowScale::Lower(lower)),
        }
    }
    scene
}

/// The window is more than the path holds three times over, so that nothing is slow.
pub(super) fn buffer_beyond_window(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(2, 6);
    let window_bytes = dice.between(24, 60) << 10;
    let send_bytes = match variant {
        // As far as net.core.wmem_max lets it; the kernel doubles it.
        Variant::Faulty => 1 << 20,
        _ => window_bytes,
    };
    Scene::over(
        make_link(rtt_ms, 10),
        format!("sink --rcvbuf {window_bytes}"),
        format!("stream --seconds 2 --sndbuf {send_bytes}"),
    )
}

/// Plants a send buffer that never holds whole segments; needs jumbo frames.
pub(super) fn odd_segment(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let (header, body) = (dice.between(4_500, 8_900), dice.between(1_000, 8_900));
    let option = variant_word(variant == Variant::Faulty, "--sndbuf 1");
    let mut scene = Scene::over(
        path(rtt_ms),
        format!("reply-server --request {}", header + body),
        format!("write-write-read --rounds 41 --header {header} --body {body} --nodelay {option}"),
    );
    scene.mtu = 9_000;
    scene
}

/// The twin sends in pieces, and less than the path would take.
pub(super) fn path_limited(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(5, 40);
    let rate_mbps = dice.between(10, 50);
    let rest = "--write-size 4096 --pause-us 20000";
    let rest = variant_word(variant == Variant::Healthy, rest);
    Scene::over(
        make_link(rtt_ms, rate_mbps),
        "sink",
        format!("stream --seconds 3 {rest}"),
    )
}
