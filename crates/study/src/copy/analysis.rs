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

/// Returns the answers to all questions of the study.
pub(super) fn all_answers(rows: &[ResultRow], extras: &AnalysisExtras) -> Vec<TextBlock> {
    let mut all = matrix::describe_setting(rows, extras);
    all.extend(matrix::describe_results(rows));
    all.extend(path::describe_copies(rows, extras));
    all.extend(path::zero_copy(rows));
    all.extend(crossings::why_not_always(rows, extras));
    all.extend(threads::describe_caches(rows, extras));
    all.extend(threads::describe_contention(rows, extras));
    all.extend(crossings::describe_crossovers(rows));
    all.extend(crossings::describe_surprise(rows, extras));
    all.extend(costs::beside_estimates(extras));
    all.extend(matrix::compare_unpublished(rows));
    all.extend(beside::beside_published(rows, extras));
    all.extend(matrix::describe_reasons(rows));
    all
}
