//! Scenes of a server with other work than to answer: in the requests, or, in the twin, beside them.

use super::scene::{Scene, SeededDice, Variant};

/// Makes the scene of a `task-server`, with a client that pauses between its requests.
fn server_scene(variant: Variant, dice: &mut SeededDice, work: &str) -> Scene {
    let rounds = dice.between(30, 45);
    server_scene_of_rounds(variant, dice, work, rounds)
}

/// Makes the scene of a `task-server`, with a client that sends `rounds` requests and pauses
/// between them.
fn server_scene_of_rounds(
    variant: Variant,
    dice: &mut SeededDice,
    work: &str,
    rounds: u64,
) -> Scene {
    let pause_us = dice.between(2_500, 4_000);
    let beside = match variant {
        Variant::Healthy => "--beside",
        Variant::Faulty | Variant::Fixed => "",
    };
    Scene::local(
        format!("task-server {work} {beside}"),
        format!("request-reply --rounds {rounds} --pause-us {pause_us}"),
    )
}

/// Plants a server that sleeps by a timer in every few requests.
pub(super) fn timer_wait(variant: Variant, dice: &mut SeededDice) -> Scene {
    let us = dice.between(10_000, 30_000);
    let every = dice.between(1, 4);
    server_scene(
        variant,
        dice,
        &format!("--work sleep --amount {us} --every {every}"),
    )
}

/// Plants a thread that holds a lock most of the time, and sleeps with it.
pub(super) fn lock_wait(variant: Variant, dice: &mut SeededDice) -> Scene {
    let us = dice.between(8_000, 20_000);
    server_scene(variant, dice, &format!("--work lock --amount {us}"))
}

/// A hundredth of the requests computes; the twin does the same work in equal parts.
pub(super) fn computes(variant: Variant, dice: &mut SeededDice) -> Scene {
    let every = dice.between(60, 100);
    let ms = dice.between(120, 250);
    let work = match variant {
        Variant::Healthy => format!("--work compute --amount {}", ms * 1_000 / every),
        Variant::Faulty | Variant::Fixed => {
            format!("--work compute --amount {} --every {every}", ms * 1_000)
        }
    };
    // a hundred at least, so that there is a slowest 1 %
    let rounds = dice.between(110, 150);
    server_scene_of_rounds(Variant::Faulty, dice, &work, rounds)
}

/// Each request writes to a file and waits for the disk.
pub(super) fn disk_wait(variant: Variant, dice: &mut SeededDice) -> Scene {
    let us = dice.between(2_000, 5_000);
    server_scene(variant, dice, &format!("--work sync --amount {us}"))
}

/// Each request reads pages of a mapped file that have to come from the disk.
pub(super) fn memory_stall(variant: Variant, dice: &mut SeededDice) -> Scene {
    let pages = dice.between(100, 200);
    server_scene(variant, dice, &format!("--work page --amount {pages}"))
}

/// Each request writes to a pipe with a slow reader.
pub(super) fn output_blocked(variant: Variant, dice: &mut SeededDice) -> Scene {
    let us = dice.between(8_000, 20_000);
    server_scene(variant, dice, &format!("--work log --amount {us}"))
}

/// Each request asks another process by a pipe.
pub(super) fn process_wait(variant: Variant, dice: &mut SeededDice) -> Scene {
    let us = dice.between(8_000, 20_000);
    server_scene(variant, dice, &format!("--work helper --amount {us}"))
}

/// Plants a few processes of one thread that wait in each request; in the twin each connection has
/// a process.
pub(super) fn busy_workers(variant: Variant, dice: &mut SeededDice) -> Scene {
    let few = dice.between(2, 3);
    let each = dice.between(3, 4);
    let sleep_us = dice.between(15_000, 30_000);
    let rounds = dice.between(15, 25);
    let (workers, of_each) = match variant {
        Variant::Healthy => (few * each, 1),
        Variant::Faulty | Variant::Fixed => (few, each),
    };
    let spread = vec![of_each.to_string(); workers as usize].join(",");
    Scene::local(
        format!("worker-server --workers {workers} --sleep-us {sleep_us}"),
        format!("worker-client --spread {spread} --rounds {rounds} --pause-us 2000"),
    )
}

/// The receive buffer of a socket has room for a few datagrams, and many come at once; the twin's has room for all.
pub(super) fn udp_drops(variant: Variant, dice: &mut SeededDice) -> Scene {
    let burst = dice.between(20, 40);
    let rounds = dice.between(8, 12);
    let limit_ms = dice.between(100, 200);
    let pause_us = dice.between(100, 300);
    let few = dice.between(4_000, 6_000);
    let rcvbuf = match variant {
        Variant::Healthy => 200_000,
        Variant::Faulty | Variant::Fixed => few,
    };
    Scene::local(
        format!("datagram-server --rcvbuf {rcvbuf} --pause-us {pause_us}"),
        format!(
            "datagram-client --burst {burst} --rounds {rounds} --limit-ms {limit_ms} --pause-us 20000"
        ),
    )
}

/// Plants another process that stops the server again and again; in the twin, another than the
/// server.
pub(super) fn process_pause(variant: Variant, dice: &mut SeededDice) -> Scene {
    let us = dice.between(50_000, 90_000);
    server_scene(variant, dice, &format!("--work stopped --amount {us}"))
}

/// Plants a server with descriptors for half of the connections at first; the twin has enough.
pub(super) fn accept_failed(variant: Variant, dice: &mut SeededDice) -> Scene {
    let connections = dice.between(4, 8);
    // descriptors are read once a second, and two readings make a duration
    let shortage_us = dice.between(5_000_000, 7_000_000);
    let rounds = dice.between(20, 30);
    let shortage = match variant {
        Variant::Healthy => String::new(),
        Variant::Faulty | Variant::Fixed => {
            let free = connections / 2;
            format!("--descriptors {free} --shortage-us {shortage_us}")
        }
    };
    Scene::local(
        format!("task-server {shortage}"),
        format!(
            "pool-client --threads {connections} --pool {connections} --rounds {rounds} --pause-us 100000"
        ),
    )
}

/// Plants a CPU quota that a few requests use up; the twin never reaches it.
pub(super) fn cpu_quota(variant: Variant, dice: &mut SeededDice) -> Scene {
    let us = dice.between(10_000, 20_000);
    let small = dice.between(4, 10);
    let rounds = dice.between(15, 25);
    let percent = match variant {
        Variant::Healthy => 190,
        Variant::Faulty | Variant::Fixed => small,
    };
    Scene::local(
        format!("task-server --cpu-quota-percent {percent} --work compute --amount {us}"),
        format!("request-reply --rounds {rounds} --pause-us 3000"),
    )
}
