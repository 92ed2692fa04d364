//! Copies on the path of a message (the published study's 4.2, 5.2 and 6.2).

use super::super::csv::ResultRow;
use super::super::doc::{TextBlock, format_bytes, format_digits};
use super::costs::cost_text;
use super::extras::AnalysisExtras;
use super::shared::{find_row, heading, paragraph, sizes, thread_counts};

/// Answers questions 4.2 and 5.2: where data is copied.
pub(super) fn describe_copies(rows: &[ResultRow], extras: &AnalysisExtras) -> Vec<TextBlock> {
    let mut blocks = vec![
        heading("Where does A1 copy, and are there two copies? (4.2)"),
        paragraph(where_copies_are(extras)),
    ];
    let costs = sizes(rows).into_iter().filter_map(|size| {
        let (own, kernel) = (
            extras.cost("consolidation", size)?,
            extras.cost("kernel_copy", size)?,
        );
        Some(format!(
            "{}: consolidation {} ns, the kernel's copy {}",
            format_bytes(size as f64),
            format_digits(own.ns),
            cost_text(kernel)
        ))
    });
    let costs: Vec<String> = costs.collect();
    if costs.is_empty() {
        blocks.push(paragraph("The cost of each copy is not in these results."));
    } else {
        blocks.push(paragraph("The cost of single copies, in warm memory:"));
        blocks.push(TextBlock::List(costs));
    }
    blocks.push(heading("Which copy does sendmsg() remove? (5.2)"));
    blocks.push(paragraph(
        "It removes the first copy: the kernel gathers the fields while it makes the second copy. The difference of \
         the server's CPU time for each message shows the gain, with all side effects:",
    ));
    blocks.push(saved(rows));
    blocks
}

/// Returns where on the path data is copied.
fn where_copies_are(extras: &AnalysisExtras) -> &'static str {
    let study = extras.study.as_ref();
    if study.is_some_and(|study| study.path != "namespaces") {
        "A1 copies three times with a CPU. The program copies eight fields into one buffer. Then tcp_sendmsg copies \
         that buffer into socket buffers, and tcp_recvmsg copies these into the receiver's buffer. DMA of the network \
         adapters is between these copies, once at each end. It costs no CPU time, but memory bandwidth."
    } else {
        "A1 copies three times with a CPU between these namespaces, and DMA makes none of its copies. The program \
         copies eight fields into one buffer. Then tcp_sendmsg copies that buffer into socket buffers, and tcp_recvmsg \
         copies these into the receiver's buffer. A veth device passes socket buffers on by reference. With a network adapter, DMA is \
         between these copies, once at each end. It costs no CPU time, but memory bandwidth."
    }
}

/// Returns how much CPU time the second variant saves, by size.
fn saved(rows: &[ResultRow]) -> TextBlock {
    let threads = thread_counts(rows).first().copied().unwrap_or(1);
    let lines = sizes(rows).into_iter().filter_map(|size| {
        let of = |name| find_row(rows, name, size, threads)?.get("cpu_ns_per_message");
        let (one, two): (f64, f64) = (of("A1")?, of("A2")?);
        let difference = one - two;
        let word = if difference >= 0.0 { "less" } else { "more" };
        Some(format!(
            "{}, {threads} client(s): {} ns with A1, {} ns with A2: {} ns {word}",
            format_bytes(size as f64),
            format_digits(one),
            format_digits(two),
            format_digits(difference.abs())
        ))
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return paragraph("CPU time is not in these results.");
    }
    TextBlock::List(lines)
}

/// Answers question 6.2 on zero-copy sends, with what became of them here.
pub(super) fn zero_copy(rows: &[ResultRow]) -> Vec<TextBlock> {
    let mut blocks = vec![
        heading("The path of MSG_ZEROCOPY (6.2)"),
        TextBlock::Verbatim(
            "sendmsg(MSG_ZEROCOPY)
  msg_zerocopy_realloc     a note of this send; counts against optmem_max (ENOBUFS)
  mm_account_pinned_pages  its pages count against RLIMIT_MEMLOCK (ENOBUFS)
  iov_iter_get_pages2      the pages are found and held, not copied
  tcp_push                 a socket buffer with the program's own pages as fragments
        |
        +-- network adapter:  DMA reads the program's pages
        |                     ACK -> skb_zcopy_clear -> error queue: done
        |
        +-- loopback, veth:   skb_orphan_frags_rx copies them, since a receiver that
                              is slow would hold the sender's pages for as long
                              as it likes -> error queue: done, ZEROCOPY_COPIED
recvmsg(MSG_ERRQUEUE)         ranges of sends that are over: only now may the fields
                              be written to again"
                .to_owned(),
        ),
    ];
    let zerocopy = rows.iter().filter(|row| row.get("zc_sends").is_some());
    let (mut sends, mut copied, mut notifications, mut enobufs) = (0.0, 0.0, 0.0, 0.0);
    for row in zerocopy {
        let of = |name| row.get(name).unwrap_or(0.0);
        sends += of("zc_completions");
        copied += of("zc_completions") * of("zc_copied_share");
        notifications += of("zc_notifications");
        enobufs += of("zc_enobufs");
    }
    if sends == 0.0 {
        blocks.push(paragraph("No zero-copy send is in these results."));
        return blocks;
    }
    let share = copied / sends * 100.0;
    blocks.push(paragraph(format!(
        "zerocopy_copied: the kernel copied {share:.1} % of {sends:.0} zero-copy sends (the sum of the medians of all \
         configurations). {notifications:.0} notifications reported them, with {:.2} sends in each. The kernel first \
         refused {enobufs:.0} sends with ENOBUFS.",
        sends / notifications
    )));
    blocks.push(paragraph(if share >= 99.95 {
        "Here the kernel copied all data. So these figures show the cost of zero-copy, and not its gain. A study \
         between namespaces cannot show the gain. That needs a network adapter with a driver that does scatter-gather \
         (`whylat lab copy --host`)."
    } else {
        "The part that was not copied shows the gain of zero-copy on this path."
    }));
    blocks
}
