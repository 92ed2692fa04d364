//! The configuration that departs most from what the others of its way of sending let expect.

use super::csv::ResultRow;
use super::stats::least_squares;

/// A departure from the trend.
#[derive(Debug)]
pub(super) struct TrendDeparture<'a> {
    pub(super) row: &'a ResultRow,
    /// Latency over what the trend says.
    pub(super) ratio: f64,
    /// Standard deviation of all departures of this variant, as a logarithm.
    pub(super) usual: f64,
}

/// Returns the largest departure of mean latency from its trend: for each variant, the logarithm of latency as a quadratic of
/// the logarithms of size and threads. `None`: no variant has more rows than the trend has weights.
pub(super) fn largest_departure(rows: &[ResultRow]) -> Option<TrendDeparture<'_>> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.variant.as_str()).collect();
    names.dedup();
    let all = names
        .into_iter()
        .filter_map(|name| variant_departure(rows, name));
    all.max_by(|a, b| a.ratio.ln().abs().total_cmp(&b.ratio.ln().abs()))
}

/// Returns the run that departs most from the trend of its variant; None with too few runs.
fn variant_departure<'a>(rows: &'a [ResultRow], name: &str) -> Option<TrendDeparture<'a>> {
    let own = rows.iter().filter(|row| row.variant == name);
    let own: Vec<(&ResultRow, f64)> = own
        .filter_map(|row| Some((row, row.get("latency").filter(|us| *us > 0.0)?.ln())))
        .collect();
    let terms: Vec<Vec<f64>> = own.iter().map(|(row, _)| terms(row)).collect();
    if own.len() <= terms.first()?.len() {
        return None;
    }
    let values: Vec<f64> = own.iter().map(|(_, value)| *value).collect();
    let weights = least_squares(&terms, &values)?;
    let departures = terms.iter().zip(&values).map(|(terms, value)| {
        let expected: f64 = terms
            .iter()
            .zip(&weights)
            .map(|(term, weight)| term * weight)
            .sum();
        value - expected
    });
    let departures: Vec<f64> = departures.collect();
    let squares: f64 = departures
        .iter()
        .map(|departure| departure * departure)
        .sum();
    let free = own.len() - weights.len();
    let ((row, _), departure) = own
        .iter()
        .zip(&departures)
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    Some(TrendDeparture {
        row,
        ratio: departure.exp(),
        usual: (squares / free as f64).sqrt(),
    })
}

/// Returns the terms of the trend: size and threads, as logarithms and their squares.
fn terms(row: &ResultRow) -> Vec<f64> {
    let (size, threads) = ((row.size as f64).log2(), (row.threads as f64).log2());
    vec![
        1.0,
        size,
        size * size,
        threads,
        threads * threads,
        size * threads,
    ]
}

#[cfg(test)]
mod tests {
    use super::super::csv;
    use super::*;

    #[test]
    fn the_planted_departure_is_found() {
        let mut text = String::from("Impl,size,thread,latency\n");
        for size in [64, 512, 4096, 65_536] {
            for threads in [1, 2, 4, 8] {
                let odd = if (size, threads) == (4096, 4) {
                    3.0
                } else {
                    1.0
                };
                let us = odd * f64::from(threads) * (5.0 + f64::from(size) / 1e4);
                text += &format!("A1,{size},{threads},{us}\n");
            }
        }
        let rows = csv::read("f", &text).unwrap();
        let found = largest_departure(&rows).unwrap();
        assert_eq!((found.row.size, found.row.threads), (4096, 4));
        assert!(found.ratio > 1.5 && found.usual > 0.0, "{found:?}");
        assert!(largest_departure(&rows[..6]).is_none());
    }
}
