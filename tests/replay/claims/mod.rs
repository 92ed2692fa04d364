//! Claims that only live programs can show, as no small recording holds them. Left out unless `WHYLAT_PLAYS`
//! is set.

mod agent;
mod demo;
mod fixes;
mod study;
mod waits;

/// A claim by its name, which panics where it does not hold.
pub type Claim = (&'static str, fn());

/// All of them.
pub fn all() -> Vec<Claim> {
    vec![
        ("claims::fixes_under_cubic", fixes::under_cubic),
        ("claims::fixes_under_bbr", fixes::under_bbr),
        ("claims::demo", demo::names_the_stall_and_shows_the_gain),
        ("claims::study", study::cause_is_named_and_fixed),
        (
            "claims::agent_small_buffer",
            agent::a_small_receive_buffer_is_a_problem_and_a_large_one_is_not,
        ),
        (
            "claims::agent_nagle",
            agent::nagle_and_delayed_acks_are_a_problem,
        ),
        ("claims::agent_single_writes", agent::single_writes_are_none),
        (
            "claims::waits_of_ten_thousand_sockets",
            waits::of_ten_thousand_sockets,
        ),
        (
            "claims::waits_of_a_thousand_threads",
            waits::of_a_thousand_threads,
        ),
    ]
}
