//! The published figures beside these, with what explains the differences.

use super::super::csv::ResultRow;
use super::super::doc::{TextBlock, format_bytes, format_digits, table};
use super::super::published;
use super::extras::AnalysisExtras;
use super::shared::{find_row, heading, paragraph};

/// Returns the published figures beside these.
pub(super) fn beside_published(rows: &[ResultRow], extras: &AnalysisExtras) -> Vec<TextBlock> {
    let mut blocks = vec![heading("Beside the published figures")];
    let product = published::LATENCY_64.iter().zip(published::THROUGHPUT_64);
    let checks = product.map(|((threads, us), (_, gbps))| {
        let one_client = 64.0 * 8.0 / us / 1e3;
        format!("{threads} threads {gbps:.4} = {one_client:.4}")
    });
    let checks: Vec<String> = checks.collect();
    blocks.push(paragraph(format!(
        "The published threads do not scale, because the study measured one client at every number of threads. Its \
         server's log says active=1 at max_threads=8; its throughput is the size divided by one client's \
             latency, for each number of threads. (64 B, Gbit/s, published = computed: {}.) Its efficiency at 8 \
             threads, {}, is \
         1/8. So its figures are set beside those of one client here.",
        checks.join(", "),
        published::EFFICIENCY_8
    )));
    let names = ["A1", "A2", "A3"];
    let mut lines = Vec::new();
    for (size, theirs) in published::THROUGHPUT {
        for (name, theirs) in names.into_iter().zip(theirs) {
            let of = |threads| find_row(rows, name, size, threads)?.get("throughput");
            let one: Option<f64> = of(1);
            lines.push([
                format!("{name}, {}", format_bytes(size as f64)),
                format_digits(theirs),
                one.map_or("–".to_owned(), format_digits),
                of(8).map_or("–".to_owned(), format_digits),
                one.map_or("–".to_owned(), |one| format!("{:.2}", one / theirs)),
            ]);
        }
    }
    let head = [
        "throughput, Gbit/s",
        "published",
        "here, 1 client",
        "here, 8 clients",
        "here, 1 client / published",
    ];
    blocks.push(table(head, lines));
    let here = extras
        .study
        .as_ref()
        .map_or("this machine".to_owned(), |study| {
            format!("{} CPUs of {}", study.cpus, study.cpu)
        });
    blocks.push(TextBlock::List(vec![
        format!(
            "Explained: the level. The published machine has 20 hardware threads of an i7-12700. This machine has \
             {here}. Here, the wake-up of the other end dominates small messages."
        ),
        "Explained: no scaling with threads (above)."
            .to_owned(),
        copied(rows),
        "Unexplained: super-linear speed-up and a peak of context switches at 4 threads. Both are of single runs with \
         one client, without a spread."
            .to_owned(),
    ]));
    blocks
}

/// Returns whether zero-copy sends were copied after all, in words.
fn copied(rows: &[ResultRow]) -> String {
    let shares = rows
        .iter()
        .filter(|row| row.variant == "A3")
        .filter_map(|row| row.get("zc_copied_share"));
    let least = shares.min_by(f64::total_cmp);
    match least {
        Some(1.0) => "Explained: A3 gains nothing. Between namespaces, the kernel copies the data of every zero-copy \
                      send (zerocopy_copied). In the published figures, A3 was 0.9 % ahead at 64 KB. This figure has \
                      no spread, so it cannot be judged."
            .to_owned(),
        Some(share) => format!(
            "Open: A3's gain. In some configuration, at least {:.1} % of its sends were copied here.",
            share * 100.0
        ),
        None => "Open: A3's gain. The results do not show which of its sends were copied.".to_owned(),
    }
}
