//! Rules, and the CSV that comes with whylat.

use table::ActivityKind;

use super::{Categories, Cause, Known, Why};

#[test]
fn the_most_specific_rule_decides() -> Result<(), super::CategoriesError> {
    let own = "pattern,cause\ntcp_*,qdisc\ntcp_v4_*,nic\n*_rcv,rcu\ntcp_v4_rcv,idle\n";
    let categories = Categories {
        layers: vec![super::Rules::parse(own)?],
    };
    let cause = |name| categories.cause(ActivityKind::Function, Some(name));
    assert_eq!(cause("tcp_v4_rcv"), Some(Cause::Idle));
    Ok(())
}
