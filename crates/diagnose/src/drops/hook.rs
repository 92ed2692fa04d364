//! The hook of netfilter at which a packet was dropped: the kernel's reason is the same at all of them, their callers are
//! not.

/// Functions that pass packets to a hook, and its name as `nft` writes it.
const HOOKS: &[(&str, &str)] = &[
    ("ip_rcv", "prerouting"),
    ("ip_list_rcv", "prerouting"),
    ("ip_sabotage_in", "prerouting"),
    ("ipv6_rcv", "prerouting"),
    ("ipv6_list_rcv", "prerouting"),
    ("ip_local_deliver", "input"),
    ("ip6_input", "input"),
    ("ip_forward", "forward"),
    ("ip6_forward", "forward"),
    ("__ip_local_out", "output"),
    ("ip_local_out", "output"),
    ("__ip6_local_out", "output"),
    ("ip6_local_out", "output"),
    ("ip6_xmit", "output"),
    ("ip_output", "postrouting"),
    ("ip_mc_output", "postrouting"),
    ("ip6_output", "postrouting"),
    ("ip6_finish_output", "postrouting"),
    ("nf_ingress", "ingress"),
    ("__netif_receive_skb_core", "ingress"),
    ("__dev_queue_xmit", "egress"),
    ("br_handle_frame", "bridge prerouting"),
    ("br_forward", "bridge forward"),
];

/// Returns the hook, from the callers of a place, innermost first.
pub fn hook_of_stack(stack: &str) -> Option<&'static str> {
    let known = |function: &str| HOOKS.iter().find(|(name, _)| *name == function);
    let mut functions = stack.split(" < ").filter_map(known);
    functions.next().map(|(_, hook)| *hook)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_is_that_of_the_innermost_caller() {
        let stack = "nft_do_chain < nft_do_chain_inet < nf_hook_slow < ip_local_deliver < \
                     __netif_receive_skb_one_core < __dev_queue_xmit < ip_output";
        assert_eq!(hook_of_stack(stack), Some("input"));
        let stack = "nft_do_chain < nf_hook_slow < __ip_local_out < ip_send_skb < udp_send_skb";
        assert_eq!(hook_of_stack(stack), Some("output"));
        assert_eq!(hook_of_stack("nf_hook_slow < something"), None);
    }
}
