//! `whylat lab fault`: what is planted is the same for the same seed, and nothing is left of it. What a
//! diagnosis says of faults: `tests/replay`.

use lab::fault::{FAULTS, Fault, Variant};
use nix::sys::signal::Signal;

use testbed::{ChildGuard, finish, until, whylat};

#[test]
fn seed_gives_equal_instances() {
    use lab::fault::scene::SeededDice;
    let scene = |fault: &Fault, variant| (fault.scene)(variant, &mut SeededDice::new(7));
    for fault in FAULTS {
        let faulty = scene(fault, Variant::Faulty);
        let again = scene(fault, Variant::Faulty);
        assert_eq!(format!("{faulty:?}"), format!("{again:?}"));
        let twin = scene(fault, Variant::Healthy);
        assert_eq!(faulty.forward.delay_us, twin.forward.delay_us);
        assert_ne!(format!("{faulty:?}"), format!("{twin:?}"), "{}", fault.name);
    }
}

#[test]
fn unknown_fault_lists_faults() {
    let output = finish(&mut whylat("lab fault no_such_thing"));
    output.assert_status(1).explains("no_such_thing");
    assert!(output.err.contains("black_hole"), "{output:?}");
    let listed = finish(&mut whylat("lab list"));
    listed.assert_status(0);
    for fault in FAULTS {
        assert!(listed.out.contains(fault.name), "{listed:?}");
    }
}

/// All processes below this one.
fn descendants(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok());
    let below = |pid| std::iter::once(pid).chain(descendants(pid));
    children.flat_map(below).collect()
}

/// Ends a fault while its roles run, and sees them go. A namespace without a name goes with the
/// last process in it.
fn ended_by(signal: Signal) {
    let words = "lab fault black_hole --seed 2 --truth /dev/null --force";
    let fault = ChildGuard::start(whylat(words).stdout(std::process::Stdio::null()));
    let roles = until("both roles, and who watches the CPUs", || {
        let roles = descendants(fault.0.id());
        (roles.len() == 3).then_some(roles)
    });
    fault.signal(signal);
    until("the end of the roles", || {
        // One that has ended has no words any more, whether its parent knows of it or not.
        let words = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        roles.iter().all(|pid| words(pid).is_empty()).then_some(())
    });
}

#[test]
fn ended_fault_leaves_nothing() {
    if testbed::root() {
        ended_by(Signal::SIGKILL);
        ended_by(Signal::SIGINT);
    }
}

/// The control group of a role goes when the role has, however that ended.
#[test]
fn killed_fault_leaves_no_group() {
    if !testbed::root() {
        return;
    }
    let words = "lab fault cpu_quota --truth /dev/null --force";
    let fault = ChildGuard::start(whylat(words).stdout(std::process::Stdio::null()));
    let group_of = |pid: &u32| {
        let roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(std::path::Path::new);
        let groups = roots.map(|root| root.join(format!("whylat-lab-{pid}")));
        groups.into_iter().find(|group| group.is_dir())
    };
    let group = until("the server's control group", || {
        descendants(fault.0.id()).iter().find_map(group_of)
    });
    fault.signal(Signal::SIGKILL);
    until("the end of the group", || (!group.exists()).then_some(()));
}

#[test]
fn unknown_fix_is_refused() {
    let refused = |words: &str, what: &str| {
        let output = finish(&mut whylat(&format!("lab fault {words}")));
        output.assert_status(1).explains(what);
    };
    refused("vtune_startup --variant mended --cure luck", "luck");
    refused("vtune_startup --cure writev", "--variant mended");
    refused("black_hole --variant mended --cure writev", "no such fix");
    let listed = finish(&mut whylat("lab list"));
    for fix in ["writev", "nodelay", "quickack", "rcvbuf"] {
        assert!(
            listed.out.contains(&format!("--cure {fix}: ")),
            "{listed:?}"
        );
    }
}
