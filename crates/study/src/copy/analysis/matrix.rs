//! The setting, the results in short, and both beside what was published.

use super::super::csv::ResultRow;
use super::super::doc::{TextBlock, format_bytes, format_change, format_digits};
use super::super::matrix::ALL;
use super::super::stats::median;
use super::extras::AnalysisExtras;
use super::shared::{find_row, heading, paragraph, sizes, thread_counts, two_columns, variants};

/// Describes the machine, the path and the runs, and the difference between two equal runs.
pub(super) fn describe_setting(rows: &[ResultRow], extras: &AnalysisExtras) -> Vec<TextBlock> {
    let mut blocks = vec![heading("Setting")];
    if let Some(study) = &extras.study {
        let path = match study.path.as_str() {
            "namespaces" => {
                "two network namespaces joined by a veth pair (10.0.0.1 and 10.0.0.2)".to_owned()
            }
            server => format!("a server at {server}"),
        };
        let pinned = if study.pin { "pinned" } else { "not pinned" };
        blocks.push(paragraph(format!(
            "Linux {}, {} CPUs ({}); {path}. A server has a thread for each client. For each request of 8 \
                bytes, it sends a message of eight heap fields. A client has {} in flight at a time. Threads \
                are {pinned}. A run \
             takes {} s after {} s of warm-up. Each configuration has {} runs, in random order. Throughput is payload \
             from server to client. Latency is from a request to the last byte of its message.",
            study.kernel, study.cpus, study.cpu, requests(study.window), study.seconds, format_digits(study.warm_up), study.repeat,
        )));
        blocks.push(paragraph(format!(
            "Every byte of every message was checked in the warm-up, and of every {}th message after it. The number, \
             order and length of all messages were checked. Both ends counted the same messages and bytes in every \
             run. N threads were N connected clients, and every zero-copy send had its completion. Otherwise the study \
             would have ended.",
            study.check_every
        )));
    } else {
        blocks.push(paragraph(format!(
            "Read from a file: {} configurations. Costs, noise and the machine are not in it.",
            rows.len()
        )));
    }
    for (name, why) in &extras.missing {
        blocks.push(paragraph(format!(
            "Counter {name}: {why}. Its column is empty."
        )));
    }
    blocks.extend(harness(rows, extras));
    blocks.extend(noise(extras));
    blocks.extend(peer(extras));
    blocks
}

/// Returns a number of requests in words.
fn requests(window: usize) -> String {
    match window {
        1 => "one request".to_owned(),
        more => format!("{more} requests"),
    }
}

/// Describes the study's own share of the CPU time of the smallest message.
fn harness(rows: &[ResultRow], extras: &AnalysisExtras) -> Option<TextBlock> {
    let cost = extras.costs.iter().find(|cost| cost.name == "harness")?;
    let of_size = rows
        .iter()
        .filter(|row| row.variant == "A1" && row.size == cost.bytes);
    let both = of_size.filter_map(|row| {
        Some(row.get("cpu_ns_per_message")? + row.get("client_cpu_ns_per_message")?)
    });
    let least_ns = both.min_by(f64::total_cmp)?;
    Some(paragraph(format!(
        "The study's own timestamps, checks, clock and histogram take {} ns for each message of {}. This is at most \
         {:.2} % of the CPU time of both ends.",
        format_digits(cost.ns),
        format_bytes(cost.bytes as f64),
        cost.ns / least_ns * 100.0
    )))
}

/// Returns how much repeated runs differ, as a table; None without any.
fn noise(extras: &AnalysisExtras) -> Option<TextBlock> {
    let lines = extras.noise.iter().filter_map(|(size, ratios)| {
        let (least, most) = (
            ratios.iter().copied().min_by(f64::total_cmp)?,
            ratios.iter().copied().max_by(f64::total_cmp)?,
        );
        let middle = median(ratios)?;
        Some([
            format_bytes(*size as f64),
            format!(
                "{middle:.3} ({least:.3} to {most:.3}, {} pairs)",
                ratios.len()
            ),
        ])
    });
    let lines: Vec<[String; 2]> = lines.collect();
    (!lines.is_empty())
        .then(|| two_columns(["noise: A1 against itself", "ratio of throughput"], lines))
}

/// Compares own throughput with iperf3's; None if it was not measured.
fn peer(extras: &AnalysisExtras) -> Option<TextBlock> {
    let ratios: Vec<f64> = extras
        .peers
        .iter()
        .map(|(own, iperf3)| own / iperf3)
        .collect();
    let of = |values: Vec<f64>| median(&values).map(format_digits);
    let own = of(extras.peers.iter().map(|(own, _)| *own).collect())?;
    let iperf3 = of(extras.peers.iter().map(|(_, iperf3)| *iperf3).collect())?;
    let least = ratios.iter().copied().min_by(f64::total_cmp)?;
    let most = ratios.iter().copied().max_by(f64::total_cmp)?;
    Some(paragraph(format!(
        "A1 was compared with iperf3 on the same path (64 KB a write, one stream, in turn). The program iperf3 \
            waits for no answer, so A1 had 32 requests in flight. A1 had {own} Gbit/s, iperf3 {iperf3} Gbit/s; \
            ratio {:.2} ({least:.2} \
         to {most:.2}).",
        median(&ratios)?
    )))
}

/// Returns throughput and latency of all, at the fewest and the most clients.
pub(super) fn describe_results(rows: &[ResultRow]) -> Vec<TextBlock> {
    let (sizes, threads) = (sizes(rows), thread_counts(rows));
    let ends = match threads.as_slice() {
        [] => return Vec::new(),
        [one] => vec![*one],
        [first, .., last] => vec![*first, *last],
    };
    let mut blocks = vec![heading("Results")];
    for threads in ends {
        let mut head = vec![format!("{threads} client(s): Gbit/s (p50 / p99, µs)")];
        head.extend(sizes.iter().map(|size| format_bytes(*size as f64)));
        let lines = variants(rows).into_iter().map(|variant| {
            let mut line = vec![variant.to_owned()];
            line.extend(
                sizes
                    .iter()
                    .map(|size| cell(find_row(rows, variant, *size, threads))),
            );
            line
        });
        blocks.push(TextBlock::Table {
            rows: lines.collect(),
            head,
        });
    }
    let skipped = rows
        .iter()
        .filter_map(|row| Some((row.variant.as_str(), row.word("skipped")?)));
    let mut skipped: Vec<_> = skipped.collect();
    skipped.dedup();
    let skipped = skipped
        .into_iter()
        .map(|(variant, why)| format!("{variant} is not measured: {why}"));
    let skipped: Vec<String> = skipped.collect();
    if !skipped.is_empty() {
        blocks.push(TextBlock::List(skipped));
    }
    blocks
}

/// Returns the cell of one run: throughput and latencies; a dash if it is missing.
fn cell(row: Option<&ResultRow>) -> String {
    let Some(gbps) = row.and_then(|row| row.get("throughput")) else {
        return "–".to_owned();
    };
    let of = |name: &str| row.and_then(|row| row.get(name)).map(format_digits);
    match of("latency_p50").zip(of("latency_p99")) {
        Some((p50, p99)) => format!("{} ({p50} / {p99})", format_digits(gbps)),
        None => format_digits(gbps),
    }
}

/// Compares the variants of sending that the published study does not have.
pub(super) fn compare_unpublished(rows: &[ResultRow]) -> Vec<TextBlock> {
    let bases = [
        ("A1-nodelay", "A1"),
        ("A2-scatter", "A2"),
        ("A3-huge", "A3"),
        ("uring", "A2"),
        ("uring-zc", "A3"),
        ("sendfile", "A1"),
        ("splice", "sendfile"),
    ];
    let Some(&threads) = thread_counts(rows).first() else {
        return Vec::new();
    };
    let lines = bases.into_iter().filter_map(|(variant, base)| {
        let cells = sizes(rows).into_iter().filter_map(|size| {
            let of = |name| find_row(rows, name, size, threads)?.get("throughput");
            Some(format!(
                "{} {}",
                format_bytes(size as f64),
                format_change(of(variant)? / of(base)?)
            ))
        });
        let cells: Vec<String> = cells.collect();
        let what = ALL
            .iter()
            .find(|known| known.name() == variant)?
            .description();
        (!cells.is_empty()).then(|| {
            [
                format!("{variant} against {base}: {what}"),
                cells.join(", "),
            ]
        })
    });
    let lines: Vec<[String; 2]> = lines.collect();
    if lines.is_empty() {
        return Vec::new();
    }
    vec![
        heading("Beyond the three"),
        two_columns([&format!("{threads} client(s)"), "throughput"], lines),
    ]
}

/// Lists the diagnosis of each variant and size.
pub(super) fn describe_reasons(rows: &[ResultRow]) -> Vec<TextBlock> {
    if rows.iter().all(|row| row.word("stage").is_none()) {
        return Vec::new();
    }
    let threads = thread_counts(rows);
    let mut head = vec![String::new()];
    head.extend(threads.iter().map(|threads| format!("{threads} client(s)")));
    let mut lines = Vec::new();
    for variant in variants(rows) {
        for size in sizes(rows) {
            let mut line = vec![format!("{variant}, {}", format_bytes(size as f64))];
            let cells = threads
                .iter()
                .map(|threads| find_row(rows, variant, size, *threads));
            line.extend(cells.map(|row| row.and_then(reason).unwrap_or_default()));
            lines.push(line);
        }
    }
    vec![
        heading("The diagnosis of each configuration"),
        paragraph(
            "Each configuration had one more run, recorded by `whylat record`. The table has the worst finding, \
                and the stage that stopped the server's sockets longest. The file results.csv has the waits of the \
             server's threads.",
        ),
        TextBlock::Table { head, rows: lines },
    ]
}

/// Returns what limits a run: finding, stage and share; None without a diagnosis.
fn reason(row: &ResultRow) -> Option<String> {
    let share = row.get("stage_share");
    let share = share.map_or(String::new(), |share| format!(" {:.0} %", share * 100.0));
    let finding = row.word("finding").unwrap_or("no finding");
    Some(format!("{finding} ({}{share})", row.word("stage")?))
}
