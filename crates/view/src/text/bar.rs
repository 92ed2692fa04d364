//! A bar of stages: one letter a cell, so that it reads without colour too.

use diagnose::report::Stages;
use diagnose::units::percent;
use table::Stage;

use crate::layout::Style;

/// Returns the letter and the colour of a stage.
pub fn stage_mark(stage: Stage) -> (char, Style) {
    match stage {
        Stage::RetransmitTimeout => ('T', Style::Red),
        Stage::TailLoss => ('L', Style::Red),
        Stage::ReceiverWindow => ('W', Style::Red),
        Stage::FastRetransmit => ('F', Style::Yellow),
        Stage::CongestionWindow => ('C', Style::Yellow),
        Stage::Pacing => ('P', Style::Yellow),
        Stage::LocalQueue => ('Q', Style::Yellow),
        Stage::Cork => ('K', Style::Yellow),
        Stage::Nagle => ('N', Style::Red),
        Stage::DelayedAck => ('D', Style::Red),
        Stage::SendBuffer => ('B', Style::Red),
        Stage::InFlight => ('~', Style::Dim),
        Stage::SenderApp => ('.', Style::Green),
        Stage::Unknown => ('?', Style::Dim),
    }
}

/// Returns the stages in the bar with their cells, `width` in all; the largest remainders are
/// rounded up.
pub fn stage_cells(stages: &Stages, width: usize) -> Vec<(Stage, usize)> {
    let total: f64 = stages.iter().map(|(_, share)| share.share).sum();
    if total <= 0.0 {
        return Vec::new();
    }
    let mut cells: Vec<(Stage, usize, f64)> = stages
        .iter()
        .map(|(stage, share)| {
            let exact = share.share / total * width as f64;
            (stage, exact as usize, exact.fract())
        })
        .collect();
    let used: usize = cells.iter().map(|(_, number, _)| number).sum();
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by(|a, b| cells[*b].2.total_cmp(&cells[*a].2).then(a.cmp(b)));
    for index in order.into_iter().take(width.saturating_sub(used)) {
        cells[index].1 += 1;
    }
    cells
        .into_iter()
        .map(|(stage, number, _)| (stage, number))
        .filter(|cell| cell.1 > 0)
        .collect()
}

/// Returns the stages in words, largest first. `unknown` is always named.
pub fn legend(stages: &Stages) -> String {
    let words = stage_names(stages, |stage| stage == Stage::Unknown);
    let words =
        words.map(|(stage, share)| format!("{}\u{a0}{stage}\u{a0}{share}", stage_mark(stage).0));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the stages in words, without the letters of a bar.
pub fn summary(stages: &Stages) -> String {
    let words = stage_names(stages, |_| false);
    let words: Vec<String> = words
        .map(|(stage, share)| format!("{stage}\u{a0}{share}"))
        .collect();
    format!("sending: {}", words.join(", "))
}

/// Returns the stages with their shares, the largest first; small ones only if `is_kept`.
fn stage_names(
    stages: &Stages,
    is_kept: fn(Stage) -> bool,
) -> impl Iterator<Item = (Stage, String)> {
    const LEAST: f64 = 0.000_5;
    let all = stages.iter();
    let mut named: Vec<_> = all
        .filter(|(stage, share)| share.share >= LEAST || is_kept(*stage))
        .collect();
    named.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
    let words = named.into_iter().map(|(stage, share)| {
        // A no-break space keeps the number and its unit on one line.
        (stage, percent(share.share).replace(' ', "\u{a0}"))
    });
    words.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnose::report::StageShare;
    use table::Method;

    /// Makes stages with these shares.
    fn stages(shares: &[(Stage, f64)]) -> Stages {
        let mut stages = Stages::default();
        for (stage, share) in shares {
            let share = StageShare {
                share: *share,
                ns: 0,
                method: Method::Ledger,
                bound: 0.0,
            };
            stages.set(*stage, share);
        }
        stages
    }

    #[test]
    fn cells_fill_the_bar_exactly() {
        let thirds = stages(&[
            (Stage::Nagle, 1.0 / 3.0),
            (Stage::DelayedAck, 1.0 / 3.0),
            (Stage::SenderApp, 1.0 / 3.0),
        ]);
        let total: usize = stage_cells(&thirds, 40)
            .iter()
            .map(|(_, number)| number)
            .sum();
        assert_eq!(total, 40);
        let tiny = stages(&[(Stage::Nagle, 0.000_1), (Stage::SenderApp, 0.999_9)]);
        assert_eq!(stage_cells(&tiny, 40), [(Stage::SenderApp, 40)]);
        assert!(stage_cells(&Stages::default(), 40).is_empty());
    }

    #[test]
    fn every_stage_has_a_letter_of_its_own() {
        let mut letters: Vec<char> = Stage::ALL
            .iter()
            .map(|stage| stage_mark(*stage).0)
            .collect();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), Stage::ALL.len());
    }
}
