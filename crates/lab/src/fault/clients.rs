//! Scenes of a client that waits for a path, a pool, a name server or a connection, and of the other end that makes it wait.

use super::scene::{
    ConnectionEnd, ProgramPair, RecordedPrograms, Scene, SeededDice, Variant, make_link, path,
    variant_word,
};
use crate::DirectionConfig;

/// Plants a client that sends requests one after another over a long path; the twin uses several
/// connections.
pub(super) fn serial_round_trips(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(10, 30);
    let fives = dice.between(8, 18);
    let client = match variant {
        Variant::Healthy => format!("request-reply --concurrency {fives} --rounds 5"),
        Variant::Faulty | Variant::Fixed => format!("request-reply --rounds {}", fives * 5),
    };
    Scene::over(path(rtt_ms), "task-server", client)
}

/// Plants a server that waits for a small message after each part; the twin's parts are ten times
/// as large.
pub(super) fn application_window(variant: Variant, dice: &mut SeededDice) -> Scene {
    const TIMES: u64 = 10;
    let rtt_ms = dice.between(10, 30);
    let windows = dice.between(4, 8);
    let part = dice.between(8, 16) << 10;
    let (rounds, reply) = match variant {
        Variant::Healthy => (windows, part * TIMES),
        Variant::Faulty | Variant::Fixed => (windows * TIMES, part),
    };
    Scene::over(
        path(rtt_ms),
        format!("reply-server --nodelay --first-request 200 --request 8 --reply {reply}"),
        // the twin's part fits into the receive buffer from the beginning
        format!(
            "request-reply --first-request 200 --request 8 --reply {reply} --rounds {rounds} --rcvbuf 200000"
        ),
    )
}

/// Plants a path that loses large packets of the server without an ICMP message. The twin's path
/// takes them.
pub(super) fn path_mtu(variant: Variant, dice: &mut SeededDice) -> Scene {
    let connections = dice.between(2, 4);
    let limit_ms = dice.between(1_500, 2_500);
    // the last segment is small, and arrives
    let reply = dice.between(3, 8) * 1_448 + dice.between(200, 1_100);
    let small = u32::try_from(dice.between(1_280, 1_480)).unwrap_or(1_280);
    let mut scene = Scene::over(
        path(dice.between(5, 30)),
        format!("reply-server --connections {connections} --reply {reply}"),
        format!(
            "short-lived --count {connections} --reply {reply} --limit-ms {limit_ms} --life-us 0"
        ),
    );
    if variant == Variant::Faulty {
        scene.back.mtu_bytes = Some(small);
    }
    scene
}

/// A connection for each request; in the twin each connection has nine, with pauses longer than the path.
pub(super) fn connection_churn(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(5, 20);
    let nines = dice.between(4, 8);
    let pause_us = (rtt_ms + 5) * 1_000;
    let client = match variant {
        Variant::Healthy => {
            format!("request-reply --concurrency {nines} --rounds 9 --pause-us {pause_us}")
        }
        Variant::Faulty | Variant::Fixed => {
            format!("short-lived --count {} --life-us 0", nines * 9)
        }
    };
    Scene::over(path(rtt_ms), "task-server", client)
}

/// Plants threads that share few connections to a slow server; in the twin each has its own.
pub(super) fn pool_wait(variant: Variant, dice: &mut SeededDice) -> Scene {
    let threads = dice.between(6, 12);
    let few = dice.between(1, 2);
    let rounds = dice.between(12, 20);
    let us = dice.between(5_000, 12_000);
    let pool = match variant {
        Variant::Healthy => threads,
        Variant::Faulty | Variant::Fixed => few,
    };
    Scene {
        recorded: RecordedPrograms::Client,
        ..Scene::over(
            path(1),
            format!("task-server --work sleep --amount {us}"),
            format!(
                "pool-client --threads {threads} --pool {pool} --rounds {rounds} --pause-us 3000"
            ),
        )
    }
}

/// Plants a server that is not recorded, and sleeps before a few of its answers.
pub(super) fn remote_slow(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rounds = dice.between(110, 150);
    let pause_us = dice.between(2_500, 4_000);
    let ms = dice.between(120, 250);
    let every = dice.between(55, 100);
    let work = format!("--work sleep --amount {} --every {every}", ms * 1_000);
    Scene {
        recorded: RecordedPrograms::Client,
        ..Scene::over(
            path(1),
            format!(
                "task-server {}",
                variant_word(variant != Variant::Healthy, &work)
            ),
            format!("request-reply --rounds {rounds} --pause-us {pause_us}"),
        )
    }
}

/// Plants transfers that fill the queue of a slow link, while requests go over it. The queue has room for all: nothing is lost.
/// The twin has no transfers.
pub(super) fn path_queue(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(10, 20);
    let rounds = dice.between(20, 30);
    let link = DirectionConfig {
        queue_bytes: 8 << 20,
        ..make_link(rtt_ms, dice.between(2, 4))
    };
    let transfers = dice.between(1, 2);
    let mut scene = Scene::over(
        link,
        "reply-server",
        format!("request-reply --rounds {rounds} --pause-us 20000"),
    );
    if variant == Variant::Faulty {
        let transfer = ProgramPair::new("sink", "stream --seconds 4");
        scene.others = vec![transfer; transfers as usize];
    }
    scene
}

/// Plants a path that loses datagrams of a client, which asks again after a while.
pub(super) fn datagrams_unanswered(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rounds = dice.between(150, 200);
    let limit_ms = dice.between(120, 250);
    let loss_ppm = dice.between(60_000, 90_000) as u32;
    let mut scene = Scene::over(
        path(dice.between(4, 12)),
        "datagram-server",
        format!("datagram-client --burst 1 --rounds {rounds} --limit-ms {limit_ms}"),
    );
    if variant == Variant::Faulty {
        scene.forward.loss_ppm = loss_ppm;
    }
    scene
}

/// A name server leaves out a few answers, and glibc asks again after a second.
pub(super) fn dns_slow(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rounds = dice.between(16, 22);
    let every = dice.between(4, 7);
    let option = format!("--drop-every {every}");
    let mut scene = Scene::over(
        path(1),
        "task-server",
        format!("lookup-client --rounds {rounds} --pause-us 4000"),
    );
    let option = variant_word(variant != Variant::Healthy, &option);
    scene.beside = vec![format!("name-server {option}")];
    scene
}

/// Plants a first address without a listener, or behind a firewall. The twin fails once, and
/// continues at once.
pub(super) fn connect_failed(variant: Variant, dice: &mut SeededDice) -> Scene {
    const RULES: &str = "add table ip lab; \
        add chain ip lab input { type filter hook input priority 0; }; \
        add rule ip lab input ip daddr 127.0.0.7 tcp flags syn drop; \
        add rule ip lab input ip daddr 127.0.0.8 tcp flags syn reject with tcp reset";
    let tries = dice.between(3, 5);
    let backoff_us = dice.between(200_000, 400_000);
    let limit_ms = dice.between(1_300, 1_900);
    let rounds = dice.between(20, 40);
    let kind = dice.between(0, 2);
    let first = match (kind, variant) {
        (0, Variant::Faulty) => format!("127.0.0.7 --tries 2 --try-limit-ms {limit_ms}"),
        (1, Variant::Faulty) => format!("127.0.0.8 --tries {tries} --backoff-us {backoff_us}"),
        (_, Variant::Faulty) => format!("127.0.0.1 --tries {tries} --backoff-us {backoff_us}"),
        (_, _) => "127.0.0.1".to_owned(),
    };
    let mut scene = Scene::over(
        path(1),
        "task-server",
        format!("keep-alive-client --rounds {rounds} --pause-us 3000 --first {first}"),
    );
    scene.firewall = vec![(ConnectionEnd::Client, RULES.to_owned())];
    scene
}

/// Plants pauses that are longer than a retransmission timeout, between requests of many windows; the twin keeps its window.
pub(super) fn slow_start_after_idle(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(40, 80);
    let request = dice.between(150_000, 300_000);
    let pause_us = 600_000 + 3_000 * rtt_ms;
    // the queue has room for a whole window at once
    let link = DirectionConfig {
        queue_bytes: 4 * request,
        ..make_link(rtt_ms, 200)
    };
    // the first request is longer: the window is large before the first pause
    let sizes = format!("--first-request {} --request {request}", 3 * request);
    let mut scene = Scene::over(
        link,
        format!("reply-server {sizes}"),
        format!("request-reply {sizes} --rounds 8 --pause-us {pause_us}"),
    );
    let after_idle = match variant {
        Variant::Healthy => "0",
        Variant::Faulty | Variant::Fixed => "1",
    };
    let name = "net.ipv4.tcp_slow_start_after_idle";
    scene
        .sysctls
        .push((ConnectionEnd::Client, name, after_idle));
    scene
}

/// Plants a server that closes idle connections just when a request comes. The twin's pauses are
/// half as long.
pub(super) fn reset_by_peer(variant: Variant, dice: &mut SeededDice) -> Scene {
    let idle_ms = dice.between(100, 180);
    let sweep_ms = dice.between(40, 60);
    let backoff_us = dice.between(200_000, 350_000);
    let long_ms = match variant {
        Variant::Healthy => idle_ms / 2,
        Variant::Faulty | Variant::Fixed => idle_ms + sweep_ms / 2,
    };
    Scene::over(
        path(1),
        format!(
            "task-server --idle-us {} --sweep-us {}",
            idle_ms * 1_000,
            sweep_ms * 1_000
        ),
        format!(
            "keep-alive-client --rounds 30 --pause-us 4000 --long-every 5 --long-pause-us {} \
             --backoff-us {backoff_us}",
            long_ms * 1_000
        ),
    )
}

/// Plants a server that closes connections with unread requests.
pub(super) fn reset_by_us(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rounds = dice.between(5, 13);
    let refuse = variant_word(variant != Variant::Healthy, "--refuse");
    Scene::over(
        path(dice.between(1, 5)),
        format!("task-server {refuse}"),
        format!("keep-alive-client --rounds {rounds} --pause-us 10000 --ask-once"),
    )
}

/// Plants one worker with most of the connections; in the twin they are spread evenly.
pub(super) fn uneven_workers(variant: Variant, dice: &mut SeededDice) -> Scene {
    let most = dice.between(5, 7);
    let burn_us = dice.between(2_000, 4_000);
    let rounds = dice.between(20, 30);
    let spread = match variant {
        Variant::Healthy => "2,2,1,1".to_owned(),
        Variant::Faulty | Variant::Fixed => format!("{most},1"),
    };
    Scene::local(
        format!("worker-server --workers 4 --burn-us {burn_us}"),
        format!("worker-client --spread {spread} --rounds {rounds} --pause-us 2000"),
    )
}

/// A script of redis runs long now and then, and the others wait. In the twin all scripts are short and alike.
pub(super) fn blocked_event_loop(variant: Variant, dice: &mut SeededDice) -> Scene {
    let others = dice.between(2, 4);
    let rounds = dice.between(150, 220);
    let long = dice.between(8, 12);
    let steps = dice.between(4_000_000, 8_000_000);
    let (of_others, of_long) = match variant {
        Variant::Healthy => (100_000, 100_000),
        Variant::Faulty | Variant::Fixed => (0, steps),
    };
    let mut scene = Scene::local(
        "redis-server",
        format!(
            "redis-client --concurrency {others} --rounds {rounds} --pause-us 4000 --steps {of_others}"
        ),
    );
    let blocker = format!("redis-client --rounds {long} --pause-us 60000 --steps {of_long}");
    scene.pair.clients.push(blocker);
    scene
}

/// A program writes a few bytes with each call; in the twin as many as a buffer holds.
pub(super) fn small_io(variant: Variant, dice: &mut SeededDice) -> Scene {
    let size = dice.between(8, 48);
    // a second and more: what calls cost is sampled
    let calls = dice.between(1_500_000, 2_000_000);
    let size_of = match variant {
        Variant::Healthy => 8_192,
        Variant::Faulty | Variant::Fixed => size,
    };
    Scene::over(
        path(1),
        "sink",
        format!("stream --bytes {} --write-size {size_of}", size * calls),
    )
}

/// A firewall of the receiver drops some of the segments, on the same host; the twin's has a rule for another protocol.
pub(super) fn packet_dropped_here(variant: Variant, dice: &mut SeededDice) -> Scene {
    let rtt_ms = dice.between(10, 30);
    let of_thousand = dice.between(15, 30);
    let protocol = match variant {
        Variant::Healthy => "udp",
        Variant::Faulty | Variant::Fixed => "tcp",
    };
    let rules = format!(
        "add table ip lab; add chain ip lab input {{ type filter hook input priority 0; }}; \
         add rule ip lab input meta l4proto {protocol} meta length > 1000 \
         numgen random mod 1000 < {of_thousand} drop"
    );
    let mut scene = Scene::over(make_link(rtt_ms, 20), "sink", "stream --bytes 3000000");
    scene.firewall = vec![(ConnectionEnd::Server, rules)];
    scene
}
