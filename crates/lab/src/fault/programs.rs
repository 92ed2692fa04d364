//! Scenes in which a program, by how it uses its sockets, holds up others.

use super::scene::{
    Claim, ClaimSubject, ConnectionEnd, Scene, SeededDice, Variant, make_link, path, variant_word,
};
use crate::DirectionConfig;

/// Makes a claim: this rule is expected at this end.
fn make_claim(rule: &'static str, end: ConnectionEnd, of: ClaimSubject) -> Claim {
    Claim { rule, end, of }
}

/// Plants many workers that answer one receiver at once, over a queue that is too short.
pub(super) fn incast(variant: Variant, dice: &mut SeededDice) -> Scene {
    const WORKERS: u64 = 36;
    let answer = dice.between(80_000, 120_000);
    let rate_bps = 200_000_000;
    let shallow = dice.between(48 << 10, 96 << 10);
    let mut scene = Scene::over(
        path(1),
        format!("reply-server --nodelay --connections {WORKERS} --reply {answer}"),
        format!(
            "request-reply --together --concurrency {WORKERS} --rounds 7 --reply {answer} \
             --pause-us 20000"
        ),
    );
    scene.back = DirectionConfig {
        rate_bps: Some(rate_bps),
        queue_bytes: if variant == Variant::Faulty {
            shallow
        } else {
            WORKERS * answer * 5 / 4
        },
        ..path(1)
    };
    scene
}

/// Plants connections that come faster than the server accepts them, with a short accept queue.
pub(super) fn listen_overflow(variant: Variant, dice: &mut SeededDice) -> Scene {
    const CONNECTIONS: u64 = 13;
    let accept_delay_us = dice.between(30_000, 60_000);
    let few = dice.between(2, 4);
    let backlog = if variant == Variant::Faulty {
        few
    } else {
        4096
    };
    // The clients' `syn_retries` is information: the listener, which is recorded, has the cause.
    Scene::over(
        path(dice.between(1, 10)),
        format!(
            "reply-server --connections {CONNECTIONS} --accept-delay-us {accept_delay_us} \
             --backlog {backlog}"
        ),
        format!("request-reply --concurrency {CONNECTIONS} --rounds 21"),
    )
}

/// Plants a listening socket that drops the last ACK of handshakes (TCP_DEFER_ACCEPT), which is no
/// fault.
pub(super) fn deferred_accepts(variant: Variant, dice: &mut SeededDice) -> Scene {
    let connections = dice.between(11, 23);
    let rtt_ms = dice.between(1, 10);
    let deferring = variant_word(variant == Variant::Faulty, "--defer-accept-s 9");
    Scene::over(
        path(rtt_ms),
        format!("reply-server --connections {connections} {deferring}"),
        format!("request-reply --concurrency {connections} --rounds 21 --pause-us 20000"),
    )
}

/// Plants a proxy of one thread that waits for its far side, while its client's data waits.
pub(super) fn waiting_proxy(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(30, 50);
    let bytes = dice.between(4, 8) << 10;
    let mut scene = Scene::over(
        make_link(rtt_ms, 50),
        "sink",
        "stream --nodelay --bytes 900001 --write-size 4096 --pause-us 8000",
    );
    let faulty = variant == Variant::Faulty;
    scene.pair.proxy = Some(if faulty {
        format!("proxy --sndbuf {bytes}")
    } else {
        "proxy".to_owned()
    });
    if faulty {
        let limited = make_claim(
            "send_buffer_limited",
            ConnectionEnd::Proxy,
            ClaimSubject::Nth(1),
        );
        scene.pair.claims.push(limited);
    }
    scene
}

/// Plants a server of one thread that sends large answers to a slow client; other requests wait.
pub(super) fn head_of_line(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(10, 30);
    let rcvbuf = dice.between(12, 20) << 10;
    let faulty = variant == Variant::Faulty;
    let mut scene = Scene::over(
        path(rtt_ms),
        "poll-server --connections 2",
        "request-reply --rounds 41 --pause-us 20000",
    );
    scene.pair.clients.push(if faulty {
        format!("request-reply --rounds 3 --reply 700000 --rcvbuf {rcvbuf}")
    } else {
        "request-reply --rounds 3 --reply 20000".to_owned()
    });
    if faulty {
        let of_slow = ClaimSubject::WithClient(1);
        let limited = make_claim("receive_buffer_limited", ConnectionEnd::Server, of_slow);
        scene.pair.claims.push(limited);
    }
    scene
}
