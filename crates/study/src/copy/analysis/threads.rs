//! Caches and threads (the published study's 10.2 and 10.3).

use super::super::csv::ResultRow;
use super::super::doc::{TextBlock, format_bytes, format_change, format_digits, table};
use super::extras::AnalysisExtras;
use super::shared::{find_row, heading, paragraph, sizes, thread_counts};

/// Answers question 10.2 on CPU caches.
pub(super) fn describe_caches(rows: &[ResultRow], extras: &AnalysisExtras) -> Vec<TextBlock> {
    let mut blocks = vec![heading("Which cache level changes most? (10.2)")];
    let threads = thread_counts(rows).last().copied().unwrap_or(1);
    let mut lines = Vec::new();
    for (name, column) in [("L1", "l1_misses"), ("last level", "llc_misses")] {
        let changes = sizes(rows).into_iter().filter_map(|size| {
            let of = |variant| count_per_message(find_row(rows, variant, size, threads)?, column);
            let one: f64 = of("A1")?;
            let two = of("A2").map(|two| format!("A2 {}", format_change(two / one)));
            let three = of("A3").map(|three| format!("A3 {}", format_change(three / one)));
            let both: Vec<String> = [two, three].into_iter().flatten().collect();
            (!both.is_empty())
                .then(|| format!("{} {}", format_bytes(size as f64), both.join(" and ")))
        });
        let changes: Vec<String> = changes.collect();
        if !changes.is_empty() {
            lines.push(format!(
                "{name}, misses a message against A1: {}",
                changes.join(", ")
            ));
        }
    }
    if lines.is_empty() {
        let why = extras.missing.get("l1_misses").map_or("", String::as_str);
        let why = if why.is_empty() {
            String::new()
        } else {
            format!(" ({why})")
        };
        blocks.push(paragraph(format!(
            "These results lack cache misses of at least two variants{why}. Published: neither \
             level changes by more than 5 %."
        )));
    } else {
        blocks.push(TextBlock::List(lines));
    }
    blocks
}

/// Returns a count a message.
fn count_per_message(row: &ResultRow, column: &str) -> Option<f64> {
    Some(row.get(column)? / row.get("messages")?)
}

/// Answers question 10.3 on contention of threads.
pub(super) fn describe_contention(rows: &[ResultRow], extras: &AnalysisExtras) -> Vec<TextBlock> {
    let mut blocks = vec![heading("What do more threads do? (10.3)")];
    let cpus = extras.study.as_ref().map(|study| study.cpus);
    let mut lines = Vec::new();
    for size in sizes(rows) {
        let one = find_row(rows, "A1", size, 1).and_then(|row| row.get("throughput"));
        for threads in thread_counts(rows) {
            let Some(row) = find_row(rows, "A1", size, threads) else {
                continue;
            };
            let Some(speedup) = one.and_then(|one| Some(row.get("throughput")? / one)) else {
                continue;
            };
            lines.push([
                format!("A1, {}, {threads} clients", format_bytes(size as f64)),
                format!("{speedup:.2}"),
                format!("{:.2}", speedup / threads as f64),
                busy(row).map_or("–".to_owned(), |busy| match cpus {
                    Some(cpus) => format!("{busy:.2} of {cpus}"),
                    None => format!("{busy:.2}"),
                }),
                count_per_message(row, "cs")
                    .map_or("–".to_owned(), |switches| format!("{switches:.2}")),
                count_per_message(row, "llc_misses").map_or("–".to_owned(), format_digits),
            ]);
        }
    }
    if thread_counts(rows).len() < 2 || lines.is_empty() {
        blocks.push(paragraph(
            "This needs A1 with one client and with more, which these results do not have.",
        ));
        return blocks;
    }
    blocks.push(table(
        [
            "",
            "speed-up",
            "efficiency",
            "CPUs busy",
            "context switches a message",
            "LLC misses a message",
        ],
        lines,
    ));
    let full = |row: &ResultRow| cpus.zip(busy(row)).map(|(cpus, busy)| busy / cpus as f64);
    let most = rows
        .iter()
        .filter(|row| row.variant == "A1")
        .filter_map(full);
    let words = match most.max_by(f64::total_cmp) {
        Some(share) => format!(
            "At most {} of the machine's CPU time went to the server's and clients' threads. When they use all of it, \
             more clients can only share it. Contention for caches would show as more CPU time for each message.",
            if share > 0.99 {
                "all".to_owned()
            } else {
                format!("{:.0} %", share * 100.0)
            }
        ),
        None => "These results do not have the CPU time of both ends.".to_owned(),
    };
    blocks.push(paragraph(words));
    blocks.extend(superlinear(rows));
    let growth = sizes(rows).into_iter().filter_map(|size| {
        let of = |threads| find_row(rows, "A1", size, threads)?.get("cpu_ns_per_message");
        let most = thread_counts(rows).last().copied()?;
        let (one, many): (f64, f64) = (of(1)?, of(most)?);
        (most > 1).then(|| {
            format!(
                "{}: CPU time of the server a message {} ns with 1 client, {} ns with {most} ({})",
                format_bytes(size as f64),
                format_digits(one),
                format_digits(many),
                format_change(many / one)
            )
        })
    });
    let growth: Vec<String> = growth.collect();
    if !growth.is_empty() {
        blocks.push(TextBlock::List(growth));
    }
    blocks
}

/// Lists runs that scale better than linearly: there, one client alone was slowed by something.
fn superlinear(rows: &[ResultRow]) -> Option<TextBlock> {
    let most = sizes(rows).into_iter().flat_map(|size| {
        let one = find_row(rows, "A1", size, 1);
        let all = thread_counts(rows).into_iter();
        all.filter_map(move |threads| {
            let (one, many) = (one?, find_row(rows, "A1", size, threads)?);
            let speedup = many.get("throughput")? / one.get("throughput")?;
            Some((speedup / threads as f64, size, threads, one, many))
        })
    });
    let (efficiency, size, threads, one, many) = most.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let [one_us, many_us] = [one, many].map(|row| {
        let both = row.get("cpu_ns_per_message")? + row.get("client_cpu_ns_per_message")?;
        Some(both / 1e3)
    });
    let (one_us, many_us) = (one_us?, many_us?);
    let latency_us = one.get("latency")?;
    (efficiency > 1.1).then(|| {
        paragraph(format!(
            "Super-linear: at {}, {threads} clients are {:.2} times as fast as {threads} times one client. One client \
             alone is slow: a message takes {} µs. Both ends use {} µs of CPU time for it, against {} µs with \
             {threads} clients. With one client, each end sleeps while the other works. The difference is probably the \
             time to wake an idle CPU. On a virtual machine, the hypervisor must do this. With more clients, no CPU \
             goes idle.",
            format_bytes(size as f64),
            efficiency,
            format_digits(latency_us),
            format_digits(one_us),
            format_digits(many_us)
        ))
    })
}

/// Returns CPUs that both ends kept busy.
fn busy(row: &ResultRow) -> Option<f64> {
    let each_ns = row.get("cpu_ns_per_message")? + row.get("client_cpu_ns_per_message")?;
    Some(each_ns * row.get("messages")? / (row.get("seconds")? * 1e9))
}
