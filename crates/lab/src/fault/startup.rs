//! The scene of VTune's recipe "Inefficient TCP/IP Synchronization": a client that starts slowly.

use super::scene::{FaultFix, Scene, SeededDice, Variant, variant_word};
use crate::DirectionConfig;

/// The fixes of the finding and of the recipe, each apart; the finding's first one first.
const FIXES: &[FaultFix] = &[
    FaultFix {
        name: "writev",
        summary: "the client hands header and body to the kernel by one writev()",
        client: "--writes gathered",
        server: "",
    },
    FaultFix {
        name: "nodelay",
        summary: "the client sets TCP_NODELAY",
        client: "--nodelay",
        server: "",
    },
    FaultFix {
        name: "quickack",
        summary: "the server sets TCP_QUICKACK after each receive call",
        client: "",
        server: "--quickack",
    },
    FaultFix {
        name: "rcvbuf",
        summary: "the recipe's own: the server sets SO_RCVBUF to 4096 bytes",
        client: "",
        server: "--rcvbuf 4096",
    },
];

/// Plants small commands with bodies that wait for the ACK of their headers; others fill segments.
pub(super) fn vtune_startup(variant: Variant, dice: &mut SeededDice) -> Scene {
    // About as long as the recipe's fast waits, 937 µs: half of it each way.
    let delay_us = dice.between(250, 750);
    let commands = dice.between(70, 90);
    let seed = dice.between(1, 1_000);
    let joined = variant_word(variant == Variant::Healthy, "--writes joined");
    let mut scene = Scene::over(
        DirectionConfig::delay(delay_us),
        "command-server",
        format!("command-client --commands {commands} --seed {seed} {joined}"),
    );
    scene.fixes = FIXES;
    scene
}
