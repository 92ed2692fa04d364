//! Fixes for waits of short writes for delayed ACKs, with the side effects of each, and which of
//! them applies to a connection.

use super::late_calls::LateCalls;
use crate::connections::case::Case;
use crate::report::Advice;
use crate::units::{count, quantity};

/// Both at once: every part in one call.
const ONE_CALL: &str = "Send each message with one call: build it in one buffer, or pass all \
                        parts to writev() or sendmsg(). Or set MSG_MORE on all parts but the \
                        last, or TCP_CORK around them. Side effect: a cork that is left on delays \
                        the tail by 200 ms.";

/// Returns the fixes of Nagle's delay, the most suitable first.
pub fn list_fixes(case: &Case) -> Vec<Advice> {
    let late = LateCalls::from_case(case);
    let several = late.as_ref().and_then(LateCalls::follow_several);
    let one_call = one_call(late.as_ref(), several);
    let nodelay = no_delay(case, several != Some(false));
    let [first, second] = if several == Some(false) {
        [nodelay, one_call]
    } else {
        [one_call, nodelay]
    };
    let receiver = "If only the receiver can change: set TCP_QUICKACK after each receive (Linux \
                    resets it), or answer at once. Side effect: a separate ACK for each segment.";
    let buffers = "Not a fix on Linux: another SO_RCVBUF or SO_SNDBUF. Neither changes when a short \
         segment or an ACK leaves.";
    vec![
        first,
        second,
        Advice(receiver.into()),
        Advice(buffers.into()),
    ]
}

/// Returns the advice to send a message by one call, and whether the calls look as if it applied.
fn one_call(late: Option<&LateCalls>, several: Option<bool>) -> Advice {
    let (Some(late), Some(several)) = (late.map(|it| it.late), several) else {
        return Advice(ONE_CALL.into());
    };
    let (part, whole) = (
        count(late.several_sends),
        quantity(late.sends_known, "late call"),
    );
    let here = if several {
        format!(
            "It applies here if these are parts of one message: {part} of {whole} followed two or more \
             sends."
        )
    } else {
        format!("It helps little here: only {part} of {whole} followed two or more sends.")
    };
    Advice(format!("{ONE_CALL} {here}").into())
}

/// Returns the advice to set TCP_NODELAY; `is_second` if another advice comes first.
fn no_delay(case: &Case, is_second: bool) -> Advice {
    let set = case.own.identity().and_then(|identity| identity.nodelay) == Some(true);
    if set {
        return Advice("TCP_NODELAY was set late: set it before the first write.".into());
    }
    let or = if is_second { "Or set" } else { "Set" };
    Advice(
        format!(
            "{or} TCP_NODELAY on this socket: short segments then leave without waiting for ACKs. Side \
             effect: a packet for each short write."
        )
        .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::gather::blocked::{CallsAfter, ShortSends};

    /// Returns the advice if this many of 8 late calls followed several sends.
    fn advice_of(several_sends: u64) -> String {
        let late = CallsAfter {
            calls: 9,
            sends_known: 8,
            several_sends,
        };
        let calls = LateCalls {
            late,
            others: CallsAfter::default(),
            short_sends: ShortSends::default(),
        };
        let advice = one_call(Some(&calls), calls.follow_several());
        advice.0.strip_prefix(ONE_CALL).expect("the fix").to_owned()
    }

    #[test]
    fn single_write_is_advised_after_several_sends() {
        assert!(
            advice_of(5).starts_with(" It applies here"),
            "{}",
            advice_of(5)
        );
        assert!(
            advice_of(5).contains("5 of 8 late calls"),
            "{}",
            advice_of(5)
        );
        assert!(
            advice_of(4).starts_with(" It helps little here"),
            "{}",
            advice_of(4)
        );
        assert_eq!(one_call(None, None).0, ONE_CALL);
    }
}
