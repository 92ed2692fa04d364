//! The fastest variant by message size (the published study's 10.1, 10.4 to 10.6).

use super::super::crossover;
use super::super::csv::ResultRow;
use super::super::doc::{TextBlock, format_bytes, format_change, format_digits, table};
use super::super::trend;
use super::extras::AnalysisExtras;
use super::shared::{find_row, heading, paragraph, sizes, thread_counts};

/// Answers question 10.1: why zero-copy does not always win.
pub(super) fn why_not_always(rows: &[ResultRow], extras: &AnalysisExtras) -> Vec<TextBlock> {
    let mut blocks = vec![heading("Why does zero-copy not always win? (10.1)")];
    let threads = thread_counts(rows).first().copied().unwrap_or(1);
    let lines = sizes(rows).into_iter().filter_map(|size| {
        let of = |name, figure| find_row(rows, name, size, threads)?.get(figure);
        let throughput: f64 = of("A3", "throughput")? / of("A2", "throughput")?;
        let cpu = of("A3", "cpu_ns_per_message").zip(of("A2", "cpu_ns_per_message"));
        let cpu = cpu.map_or(String::new(), |(own, other)| {
            format!(
                "; CPU time of the server {} to {} ns a message",
                format_digits(other),
                format_digits(own)
            )
        });
        Some(format!(
            "{}: throughput {} against A2{cpu}",
            format_bytes(size as f64),
            format_change(throughput)
        ))
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        blocks.push(paragraph("A2 and A3 are not both in these results."));
        return blocks;
    }
    blocks.push(TextBlock::List(lines));
    let cost = |name: &str, size| extras.cost(name, size).map(|cost| cost.ns);
    if let (Some(pin), Some(completion), Some(copy)) = (
        cost("pinning", 4096),
        cost("completion", 4096),
        cost("kernel_copy", 4096),
    ) {
        let fixed = 8.0 * pin + completion;
        blocks.push(paragraph(format!(
            "Measured as single steps, pinning and releasing eight pages takes {} ns. Reading a notification \
                takes {} ns, together {} ns. To copy 4 KB takes {} ns. {} In addition, the kernel records each \
                send. The program must \
             wait for its completion before it can use the memory again.",
            format_digits(8.0 * pin),
            format_digits(completion),
            format_digits(fixed),
            format_digits(copy),
            if fixed > copy {
                "So zero-copy of eight fields of 512 B costs more than a copy."
            } else {
                "So zero-copy of eight fields of 512 B costs less than a copy, by these steps alone."
            }
        )));
    }
    let all_copied = rows
        .iter()
        .filter_map(|row| row.get("zc_copied_share"))
        .all(|share| share >= 0.9995);
    if all_copied && rows.iter().any(|row| row.get("zc_copied_share").is_some()) {
        blocks.push(paragraph(
            "On this path, the kernel also makes the copy, later and in softirq (zerocopy_copied). So all of this is \
             additional cost.",
        ));
    }
    blocks
}

/// Answers questions 10.4 and 10.5: where the variants cross.
pub(super) fn describe_crossovers(rows: &[ResultRow]) -> Vec<TextBlock> {
    let mut blocks = vec![heading(
        "From which size on is one variant faster? (10.4, 10.5)",
    )];
    let mut lines = Vec::new();
    for (base, variant) in [("A1", "A2"), ("A1", "A3"), ("A2", "A3")] {
        for threads in thread_counts(rows) {
            let Some(found) = crossover::find(rows, base, variant, threads) else {
                continue;
            };
            let ratios = found.ratios.iter();
            let ratios = ratios.map(|(size, ratio)| {
                format!("{} {}", format_bytes(*size as f64), format_change(*ratio))
            });
            lines.push([
                format!("{variant} against {base}, {threads} client(s)"),
                found.to_text(),
                ratios.collect::<Vec<_>>().join(", "),
            ]);
        }
    }
    if lines.is_empty() {
        blocks.push(paragraph(
            "This needs two variants at two sizes, which these results do not have.",
        ));
        return blocks;
    }
    blocks.push(table(["", "crossover", "throughput"], lines));
    blocks.push(paragraph(
        "Published: none for A2 (\"projected >128 KB\"), about 32 to 48 KB for A3, from single runs without a spread.",
    ));
    blocks
}

/// Answers question 10.6: what was surprising.
pub(super) fn describe_surprise(rows: &[ResultRow], extras: &AnalysisExtras) -> Vec<TextBlock> {
    let mut blocks = vec![heading("What is the least expected result? (10.6)")];
    let Some(found) = trend::largest_departure(rows) else {
        blocks.push(paragraph(
            "No variant has enough configurations for a trend (seven).",
        ));
        return blocks;
    };
    let verdict = match (found.row.word("stage"), found.row.word("finding")) {
        (Some(stage), finding) => {
            format!(
                " The diagnosis of whylat: stage {stage}, finding {}.",
                finding.unwrap_or("none")
            )
        }
        _ => String::new(),
    };
    let within = match extras.noise_at(found.row.size) {
        Some(noise) if found.ratio.max(1.0 / found.ratio) <= noise => format!(
            " Two equal runs of A1 of this size differed by more, up to {}: the difference needs no cause.",
            format_change(noise)
        ),
        Some(noise) => format!(
            " It needs a cause: two equal runs of A1 of this size differed by less (at most {}).",
            format_change(noise)
        ),
        None => " The noise is not in these results.".to_owned(),
    };
    let interval = found
        .row
        .bounds("latency")
        .map_or(String::new(), |(low, high)| {
            format!(
                " (95 %: {} to {} µs)",
                format_digits(low),
                format_digits(high)
            )
        });
    blocks.push(paragraph(format!(
        "The trend of a variant is the logarithm of its mean latency. It is a quadratic function of the \
            logarithms of size and clients. The variant {} at {} with {} client(s) has the largest difference \
            from its trend: {} \
         µs{interval}, {} against the trend. The usual difference there is {}.{within}{verdict}",
        found.row.variant,
        format_bytes(found.row.size as f64),
        found.row.threads,
        found.row.get("latency").map_or(String::new(), format_digits),
        format_change(found.ratio),
        format_change(found.usual.exp()),
    )));
    blocks
}
