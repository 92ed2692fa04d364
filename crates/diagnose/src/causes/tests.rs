//! Rules in general, and those that come with whylat against the functions of real kernels.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use table::ActivityKind;

use super::rules::CategoryRules;
use super::{BUILT_IN, Categories, CategoriesError, CategoryFault, Cause, CauseCache, symbol};

/// Lists of symbols to try whylat's rules on, as `/proc/kallsyms` or `nm` write them, or a name a line;
/// paths with `:` between them.
const SYMBOLS: &str = "WHYLAT_KERNEL_SYMBOLS";

/// So many functions of a kernel have a cause, at least.
const SORTED_LEAST: usize = 1_500;

/// No pattern sorts more of them than one in so many: rules are specific.
const SHARE_MOST: usize = 20;

/// Returns the cause that the rules give a function.
fn function(categories: &Categories, name: &str) -> Option<Cause> {
    categories.cause(ActivityKind::Function, Some(name))
}

/// Reads rules of a user, without the built-in ones.
fn own(csv: &str) -> Result<Categories, CategoriesError> {
    let layers = vec![Arc::new(CategoryRules::parse(csv)?)];
    Ok(Categories { layers })
}

#[test]
fn the_most_specific_rule_decides() -> Result<(), CategoriesError> {
    let categories = own("pattern,cause\n\
        tcp_*,qdisc\n\
        tcp_v4_*,nic\n\
        *_v4_rcv,rcu\n\
        tcp_*_rcv,polling\n\
        tcp_v4_rcv,idle\n")?;
    assert_eq!(function(&categories, "tcp_v4_rcv"), Some(Cause::Idle));
    assert_eq!(function(&categories, "tcp_v4_send"), Some(Cause::Nic));
    assert_eq!(function(&categories, "udp_v4_rcv"), Some(Cause::Rcu));
    assert_eq!(function(&categories, "tcp_v6_rcv"), Some(Cause::Polling));
    assert_eq!(function(&categories, "tcp_ack"), Some(Cause::Qdisc));
    // the star matches nothing, too, but literals do not overlap
    assert_eq!(function(&categories, "tcp_"), Some(Cause::Qdisc));
    assert_eq!(function(&categories, "tcp_rcv"), Some(Cause::Qdisc));
    assert_eq!(function(&categories, "ip_rcv"), None);
    Ok(())
}

#[test]
fn names_are_those_of_the_source() -> Result<(), CategoriesError> {
    for (name, plain) in [
        ("tcp_ack.isra.0", "tcp_ack"),
        ("tcp_ack.constprop.0.isra.1.cold", "tcp_ack"),
        ("tcp_ack.part.12", "tcp_ack"),
        ("tcp_ack.llvm.1234567", "tcp_ack"),
        ("sym.with.dots", "sym.with.dots"),
        (".L123", ".L123"),
        ("", ""),
        ("a.", "a."),
    ] {
        assert_eq!(symbol::strip_suffixes(name), plain, "{name}");
    }
    let categories = own("tcp_ack,nic\n__tcp_push,rcu\ntcp_push,qdisc\nread,timers,syscall\n")?;
    assert_eq!(function(&categories, "tcp_ack.isra.0"), Some(Cause::Nic));
    assert_eq!(function(&categories, "__tcp_ack"), Some(Cause::Nic));
    assert_eq!(function(&categories, "__tcp_push"), Some(Cause::Rcu));
    for body in ["__x64_sys_read", "__se_sys_read.isra.0", "ksys_read"] {
        assert_eq!(function(&categories, body), Some(Cause::Timers), "{body}");
    }
    assert_eq!(function(&categories, "read"), None, "that is a system call");
    assert_eq!(function(&categories, "__x64_sys_"), None);
    Ok(())
}

#[test]
fn kinds_are_distinguished() -> Result<(), CategoriesError> {
    let categories = Categories::built_in()?;
    let cause = |kind, name| categories.cause(kind, name);
    use ActivityKind::*;
    for (kind, name, expected) in [
        (Softirq, Some("NET_RX"), Some(Cause::ReceiveProcessing)),
        (Softirq, Some("RCU"), Some(Cause::Rcu)),
        (Syscall, Some("epoll_wait"), Some(Cause::Polling)),
        (Syscall, Some("recvmsg"), Some(Cause::SocketCalls)),
        (Syscall, Some("futex"), Some(Cause::Futex)),
        (Syscall, None, Some(Cause::SystemCalls)),
        (Irq, Some("virtio1-input.0"), Some(Cause::Nic)),
        (Irq, Some("local_timer"), Some(Cause::Timers)),
        (Irq, Some("nvme0q3"), Some(Cause::BlockIo)),
        (Irq, None, Some(Cause::Interrupts)),
        (Task, Some("ksoftirqd/3"), Some(Cause::Softirqs)),
        (Task, Some("kworker/u8:2"), Some(Cause::Workqueues)),
        (Task, Some("kswapd0"), Some(Cause::MemoryReclaim)),
        (Task, Some("khugepaged"), Some(Cause::HugePages)),
        (Task, Some("redis-server"), None),
        (Task, None, None),
        (Idle, None, Some(Cause::Idle)),
        (Untraced, Some("lost"), None),
        (DecodeError, Some("tcp_ack"), None),
        (Function, Some("tcp_v4_rcv"), Some(Cause::ReceiveProcessing)),
        (
            Function,
            Some("mlx5e_poll_rx_cq"),
            Some(Cause::ReceiveProcessing),
        ),
        (
            Function,
            Some("change_prot_numa"),
            Some(Cause::NumaBalancing),
        ),
        (Function, Some("change_protection"), Some(Cause::Paging)),
        (
            Function,
            Some("netif_receive_skb"),
            Some(Cause::ReceiveProcessing),
        ),
        (Function, Some("hrtimer"), Some(Cause::Timers)),
        (Function, Some("timer"), Some(Cause::Timers)),
        (Function, Some("main"), None),
        (Function, None, None),
    ] {
        assert_eq!(cause(kind, name), expected, "{kind} {name:?}");
    }
    Ok(())
}

#[test]
fn rules_of_the_user_come_first() -> Result<(), CategoriesError> {
    let csv = "# ours\npattern,cause,kind\ntcp_*,security\nnginx,receive_processing,task\n";
    assert!(own(csv).is_err(), "the heading is the first line");
    let csv =
        "pattern,cause,kind\n# ours\r\ntcp_*,security\n nginx , receive_processing , task\n\n";
    let categories = Categories::built_in()?.with_rules(csv)?;
    assert_eq!(function(&categories, "tcp_v4_rcv"), Some(Cause::Security));
    let rule = categories.rule(ActivityKind::Function, "tcp_v4_rcv");
    assert_eq!(rule, Some("tcp_*"));
    assert_eq!(
        function(&categories, "ip_rcv"),
        Some(Cause::ReceiveProcessing)
    );
    let nginx = categories.cause(ActivityKind::Task, Some("nginx"));
    assert_eq!(nginx, Some(Cause::ReceiveProcessing));
    Ok(())
}

#[test]
fn a_wrong_line_is_named() {
    for (csv, line, why) in [
        ("tcp_ack\n", 1, CategoryFault::Columns),
        ("# c\n\na,b,c,d\n", 3, CategoryFault::Columns),
        (
            "tcp_ack,magic\n",
            1,
            CategoryFault::Cause("magic".to_owned()),
        ),
        (
            "tcp_ack,nic,idle\n",
            1,
            CategoryFault::Kind("idle".to_owned()),
        ),
        ("**,nic\n", 1, CategoryFault::Pattern),
        (",nic\n", 1, CategoryFault::Pattern),
        ("a,nic\nb,nic\na,rcu\n", 3, CategoryFault::Twice(1)),
        ("a*,nic\nb,nic\na*,nic\n", 3, CategoryFault::Twice(1)),
    ] {
        let error = own(csv).expect_err(csv);
        assert_eq!((error.line, &error.why), (line, &why), "{csv}");
        let text = error.to_string();
        assert!(text.starts_with(&format!("line {line} ")), "{text}");
        assert!(text.contains("\nhint: "), "{text}");
    }
}

#[test]
fn cached_names_have_the_same_causes() -> Result<(), CategoriesError> {
    let categories = Categories::built_in()?;
    let mut known = CauseCache::new(&categories);
    for name in ["tcp_ack", "main", "tcp_ack", "main", "futex"] {
        for kind in [ActivityKind::Function, ActivityKind::Syscall] {
            let direct = categories.cause(kind, Some(name));
            assert_eq!(known.cause(kind, Some(name)), direct, "{kind} {name}");
        }
    }
    assert_eq!(known.cause(ActivityKind::Idle, None), Some(Cause::Idle));
    Ok(())
}

#[test]
fn every_cause_has_rules_and_none_is_a_catch_all() -> Result<(), CategoriesError> {
    let rules = CategoryRules::parse(BUILT_IN)?;
    let lines = BUILT_IN.lines().filter(|line| !line.starts_with('#'));
    let used: HashSet<_> = lines.filter_map(|line| line.split(',').nth(1)).collect();
    let mut names = HashSet::new();
    for cause in Cause::ALL {
        let name = cause.name();
        assert!(used.contains(name), "no rule has the cause {name}");
        assert!(names.insert(name), "{name} twice");
        assert_eq!(Cause::from_name(name), Some(*cause));
        for text in [cause.meaning(), cause.remedy()] {
            assert!(text.ends_with('.') && !text.contains('|'), "{name}: {text}");
        }
    }
    for (kind, least) in [
        (ActivityKind::Function, 4),
        (ActivityKind::Syscall, 3),
        (ActivityKind::Irq, 3),
        (ActivityKind::Task, 3),
    ] {
        for pattern in rules.names_and_patterns(kind).1 {
            let text = pattern.text();
            assert!(
                pattern.literal_count() >= least,
                "{kind} {text} is too general"
            );
        }
    }
    Ok(())
}

/// Returns the names of functions in a list of symbols, without suffixes of the compiler.
fn functions(list: &str) -> HashSet<&str> {
    let name = |line| match str::split_whitespace(line).collect::<Vec<_>>().as_slice() {
        [name] => Some(*name),
        [_, kind, name, ..] if ["t", "T", "w", "W"].contains(kind) => Some(*name),
        _ => None,
    };
    list.lines()
        .filter_map(name)
        .map(symbol::strip_suffixes)
        .collect()
}

#[test]
fn rules_classify_functions_of_this_kernel() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(list) = std::fs::read_to_string("/proc/kallsyms") else {
        eprintln!("skipped: /proc/kallsyms cannot be read");
        return Ok(());
    };
    let categories = Categories::built_in()?;
    let mut sorted: HashMap<&str, usize> = HashMap::new();
    let names = functions(&list);
    for name in &names {
        if let Some(rule) = categories.rule(ActivityKind::Function, name) {
            *sorted.entry(rule).or_default() += 1;
        }
    }
    let all: usize = sorted.values().sum();
    eprintln!("{all} of {} functions have a cause", names.len());
    assert!(all >= SORTED_LEAST, "{all} functions have a cause");
    let most = sorted.into_iter().max_by_key(|(_, count)| *count);
    let (rule, count) = most.ok_or("no rule")?;
    assert!(count * SHARE_MOST <= all, "{rule} sorts {count} of {all}");
    Ok(())
}

#[test]
fn every_rule_is_of_a_function_that_is_in_a_kernel() -> Result<(), Box<dyn std::error::Error>> {
    let Some(paths) = std::env::var_os(SYMBOLS) else {
        eprintln!("skipped: {SYMBOLS} names no lists of symbols");
        return Ok(());
    };
    let lists: Result<Vec<_>, _> = std::env::split_paths(&paths)
        .map(std::fs::read_to_string)
        .collect();
    let lists = lists?;
    let mut names: HashSet<&str> = lists.iter().flat_map(|list| functions(list)).collect();
    let inner: Vec<_> = names
        .iter()
        .map(|name| name.trim_start_matches('_'))
        .collect();
    let rules = CategoryRules::parse(BUILT_IN)?;
    let (exact, patterns) = rules.names_and_patterns(ActivityKind::Function);
    let missing: Vec<_> = exact
        .into_iter()
        .filter(|name| !names.contains(name))
        .collect();
    // what the flight recorder names its spans
    let missing: Vec<_> = missing
        .into_iter()
        .filter(|name| !["hrtimer", "timer"].contains(name))
        .collect();
    assert!(missing.is_empty(), "in no list: {missing:?}");
    names.extend(inner);
    let idle = patterns
        .into_iter()
        .filter(|pattern| !names.iter().any(|name| pattern.matches(name)));
    let idle: Vec<_> = idle
        .map(|pattern| pattern.text())
        .filter(|text| !text.starts_with("bpf_prog_*_"))
        .collect();
    assert!(idle.is_empty(), "in no list: {idle:?}");
    Ok(())
}

/// Returns the cause by the documented order of rules, without any index.
fn by_hand<'a>(rules: &'a [(String, Cause)], name: &str) -> Option<&'a Cause> {
    if let Some((_, cause)) = rules.iter().find(|(pattern, _)| pattern == name) {
        return Some(cause);
    }
    let fits = |pattern: &str| {
        // a regular expression of one metacharacter, by dynamic programming
        let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
        let mut reached = vec![false; name.len() + 1];
        reached[0] = true;
        for byte in pattern {
            let mut next = vec![false; name.len() + 1];
            for place in 0..=name.len() {
                next[place] = match byte {
                    b'*' => reached[place] || place > 0 && next[place - 1],
                    byte => place > 0 && reached[place - 1] && name[place - 1] == *byte,
                };
            }
            reached = next;
        }
        reached[name.len()]
    };
    let stars = |pattern: &str| pattern.matches('*').count();
    let key = |pattern: &str| {
        (
            stars(pattern).wrapping_sub(pattern.len()).cast_signed(),
            stars(pattern),
        )
    };
    let matches = rules
        .iter()
        .filter(|(pattern, _)| pattern.contains('*') && fits(pattern));
    let first = matches.min_by(|(a, _), (b, _)| key(a).cmp(&key(b)).then_with(|| a.cmp(b)));
    first.map(|(_, cause)| cause)
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(?s).{0,200}") {
        let _ = own(&text);
    }

    #[test]
    fn damaged_lines_are_read_or_refused(
        from in 0..BUILT_IN.len(), length in 0usize..300, place in 0usize..300, byte in any::<u8>(),
    ) {
        let end = (from + length).min(BUILT_IN.len());
        let mut bytes = BUILT_IN.as_bytes()[from..end].to_vec();
        if let Some(damaged) = bytes.get_mut(place) {
            *damaged = byte;
        }
        let _ = own(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn the_index_finds_what_the_documentation_says(
        patterns in prop::collection::btree_set("[ab*]{1,5}", 1..12),
        order in any::<prop::sample::Index>(),
        names in prop::collection::vec("[ab]{1,7}", 1..20),
    ) {
        let mut rules: Vec<_> = patterns
            .into_iter()
            .filter(|pattern| pattern.bytes().any(|byte| byte != b'*'))
            .zip(Cause::ALL.iter().copied().cycle())
            .collect();
        prop_assume!(!rules.is_empty());
        let first = order.index(rules.len());
        rules.rotate_left(first);
        let csv: String = rules.iter().map(|(pattern, cause)| format!("{pattern},{cause}\n")).collect();
        let categories = own(&csv).expect("rules");
        for name in names {
            let expected = by_hand(&rules, &name).copied();
            prop_assert_eq!(function(&categories, &name), expected, "{} of {}", name, csv);
        }
    }
}
