//! The matrix of runs: variants × sizes × threads, in an order that favours none.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use lab::Random;

/// Calls by which a message is sent, or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
pub(super) enum SendVariant {
    /// The eight fields are copied into one buffer, which is sent by send()
    #[value(name = "A1")]
    #[serde(rename = "A1")]
    Send,
    /// sendmsg() gathers the fields
    #[value(name = "A2")]
    #[serde(rename = "A2")]
    Sendmsg,
    /// sendmsg() with MSG_ZEROCOPY
    #[value(name = "A3")]
    #[serde(rename = "A3")]
    Zerocopy,
    /// A1 with TCP_NODELAY at both ends
    #[value(name = "A1-nodelay")]
    #[serde(rename = "A1-nodelay")]
    SendNodelay,
    /// A2, and recvmsg() scatters what is received into eight fields
    #[value(name = "A2-scatter")]
    #[serde(rename = "A2-scatter")]
    SendmsgScatter,
    /// A3 with the fields in huge pages
    #[value(name = "A3-huge")]
    #[serde(rename = "A3-huge")]
    ZerocopyHuge,
    /// io_uring's SENDMSG gathers the fields
    #[value(name = "uring")]
    #[serde(rename = "uring")]
    Uring,
    /// io_uring's SEND_ZC, one for each field, linked; the fields are registered buffers
    #[value(name = "uring-zc")]
    #[serde(rename = "uring-zc")]
    UringZerocopy,
    /// sendfile() from a file in memory
    #[value(name = "sendfile")]
    #[serde(rename = "sendfile")]
    Sendfile,
    /// splice() from a file in memory by way of a pipe
    #[value(name = "splice")]
    #[serde(rename = "splice")]
    Splice,
}

/// All variants, the published study's three first.
pub(super) const ALL: [SendVariant; 10] = [
    SendVariant::Send,
    SendVariant::Sendmsg,
    SendVariant::Zerocopy,
    SendVariant::SendNodelay,
    SendVariant::SendmsgScatter,
    SendVariant::ZerocopyHuge,
    SendVariant::Uring,
    SendVariant::UringZerocopy,
    SendVariant::Sendfile,
    SendVariant::Splice,
];

impl SendVariant {
    /// Returns the variant's name in column `Impl`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Send => "A1",
            Self::Sendmsg => "A2",
            Self::Zerocopy => "A3",
            Self::SendNodelay => "A1-nodelay",
            Self::SendmsgScatter => "A2-scatter",
            Self::ZerocopyHuge => "A3-huge",
            Self::Uring => "uring",
            Self::UringZerocopy => "uring-zc",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
        }
    }

    /// Returns a description in a few words.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Send => "consolidated, send()",
            Self::Sendmsg => "sendmsg() gathers",
            Self::Zerocopy => "sendmsg(MSG_ZEROCOPY)",
            Self::SendNodelay => "A1 with TCP_NODELAY",
            Self::SendmsgScatter => "A2, received by recvmsg() into eight fields",
            Self::ZerocopyHuge => "A3, fields in huge pages",
            Self::Uring => "io_uring SENDMSG",
            Self::UringZerocopy => "io_uring SEND_ZC of registered buffers",
            Self::Sendfile => "sendfile() from a file in memory",
            Self::Splice => "splice() from a file in memory",
        }
    }

    /// Returns whether messages come from a file that already has their stamps.
    pub(super) fn is_file(self) -> bool {
        matches!(self, Self::Sendfile | Self::Splice)
    }

    /// Returns whether the variant sets TCP_NODELAY.
    pub(super) fn nodelay(self) -> bool {
        self == Self::SendNodelay
    }

    /// Returns whether the receiver scatters.
    pub(super) fn scatters(self) -> bool {
        self == Self::SendmsgScatter
    }
}

/// One cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct RunConfig {
    #[serde(rename = "impl")]
    pub(super) variant: SendVariant,
    /// Bytes of a message.
    pub(super) size: usize,
    /// Clients, each with a thread and a connection, and as many threads of the server.
    pub(super) threads: usize,
}

/// Returns every configuration, in the order of the results.
pub(super) fn configs(
    variants: &[SendVariant],
    sizes: &[usize],
    threads: &[usize],
) -> Vec<RunConfig> {
    let mut all = Vec::new();
    for &variant in variants {
        for &size in sizes {
            all.extend(threads.iter().map(|&threads| RunConfig {
                variant,
                size,
                threads,
            }));
        }
    }
    all
}

/// Puts items in random order, so that changes over time affect all alike.
pub(super) fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_options_and_of_json() {
        for variant in ALL {
            let name = variant.name();
            assert_eq!(SendVariant::from_str(name, false), Ok(variant));
            assert_eq!(serde_json::to_value(variant).unwrap(), name);
        }
    }

    #[test]
    fn shuffle_keeps_every_run() {
        let mut configs = configs(&ALL, &[64, 512], &[1, 2, 4]);
        let before = configs.clone();
        shuffle(&mut configs, &mut Random::new(7));
        assert_ne!(configs, before);
        configs.sort();
        assert_eq!(configs, before);
    }
}
