//! Scenes of small messages: what waits between a write and the answer to it, or computes.

use super::scene::{ProgramPair, Scene, SeededDice, Variant, claim_opener, path, variant_word};

/// Plants a client that writes a request in two calls, so that Nagle's algorithm holds the second.
pub(super) fn write_write_read(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let (header, body) = (dice.between(8, 40), dice.between(50, 200));
    let fix = match variant {
        Variant::Faulty => "",
        Variant::Healthy => "--one-write",
        Variant::Fixed => "--nodelay",
    };
    Scene::over(
        path(rtt_ms),
        format!("reply-server --request {}", header + body),
        format!("write-write-read --rounds 41 --header {header} --body {body} {fix}"),
    )
}

/// Plants a client that corks its requests and waits for each reply; the twin sends them at once.
pub(super) fn cork_delay(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let request = dice.between(50, 1_000);
    let rounds = dice.between(15, 25);
    let cork = variant_word(variant == Variant::Faulty, "--cork");
    Scene::over(
        path(rtt_ms),
        format!("reply-server --request {request}"),
        format!("request-reply --request {request} --rounds {rounds} {cork}"),
    )
}

/// Plants a client that logs short records: one joins the next within the ACK timer's 40 ms.
/// Records written back to back do not stall.
pub(super) fn logging_client(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let pause_us = dice.between(3_000, 6_000);
    let seed = dice.between(1, 1_000);
    let answered = variant_word(variant != Variant::Healthy, "--answer-every 50");
    let nodelay = variant_word(variant == Variant::Fixed, "--nodelay");
    Scene::over(
        path(rtt_ms),
        format!("log-server {answered}"),
        format!("log-client --records 700 --seed {seed} --pause-us {pause_us} {nodelay}"),
    )
}

/// Plants a client that writes each request in two calls, beside 200 healthy connections.
pub(super) fn one_among_200(variant: Variant, dice: &mut SeededDice) -> Scene {
    let mut scene = write_write_read(variant, dice);
    let pause_us = dice.between(30_000, 70_000);
    scene.others = vec![ProgramPair::new(
        "reply-server --connections 200",
        format!("request-reply --concurrency 200 --rounds 31 --pause-us {pause_us}"),
    )];
    scene
}

/// Plants a fault beside a healthy connection.
pub(super) fn two_faults(variant: Variant, dice: &mut SeededDice) -> Scene {
    let mut scene = write_write_read(variant, dice);
    let bytes = dice.between(4, 8) << 10;
    let option = format!("--rcvbuf {bytes}");
    let faulty = variant == Variant::Faulty;
    let mut other = ProgramPair::new(
        format!("sink {}", variant_word(faulty, &option)),
        // As much as the small buffer takes in a second or two.
        "stream --bytes 500009",
    );
    let claim = claim_opener("receive_buffer_limited").filter(|_| faulty);
    other.claims.extend(claim);
    // No faster than its reader surely is; the queue takes all of it.
    scene.forward.rate_bps = Some(20_000_000);
    scene.others = vec![other];
    scene
}

/// Plants a server that computes for long.
pub(super) fn server_computes(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let compute_us = dice.between(10_000, 30_000);
    let option = format!("--compute-us {compute_us}");
    let option = variant_word(variant == Variant::Faulty, &option);
    Scene::over(
        path(rtt_ms),
        format!("reply-server {option}"),
        "request-reply --rounds 71",
    )
}

/// Plants a client that pauses between requests.
pub(super) fn client_thinks(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(1, 10);
    let pause_us = dice.between(10_000, 30_000);
    let option = format!("--pause-us {pause_us}");
    let option = variant_word(variant == Variant::Faulty, &option);
    Scene::over(
        path(rtt_ms),
        "reply-server",
        format!("request-reply --rounds 71 {option}"),
    )
}
