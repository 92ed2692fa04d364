//! The published study's questions, answered from the results; where these do not suffice, the answer says what is missing.

mod beside;
mod costs;
mod crossings;
mod extras;
mod matrix;
mod path;
mod shared;
mod threads;

use super::csv::ResultRow;
use super::doc::TextBlock;
pub(super) use extras::AnalysisExtras;

/// Returns all answers.
pub(super) fn answers(rows: &[ResultRow], extras: &AnalysisExtras) -> Vec<TextBlock> {
    let mut all = matrix::setting(rows, extras);
    all.extend(matrix::results(rows));
    all.extend(path::copies(rows, extras));
    all.extend(path::zero_copy(rows));
    all.extend(crossings::why_not_always(rows, extras));
    all.extend(threads::caches(rows, extras));
    all.extend(threads::contention(rows, extras));
    all.extend(crossings::crossovers(rows));
    all.extend(crossings::surprise(rows, extras));
    all.extend(costs::beside_estimates(extras));
    all.extend(matrix::compare_unpublished(rows));
    all.extend(beside::beside_published(rows, extras));
    all.extend(matrix::reasons(rows));
    all
}
