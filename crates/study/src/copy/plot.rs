//! The figures, from the results alone: the published study's eight, the crossovers, and CPU time, which every machine
//! counts.

use super::csv::ResultRow;
use super::doc::format_bytes;
use super::matrix::ALL;
use super::svg::{ChartPoint, ChartSeries, LineChart};

/// A figure, or what is missing for it.
#[derive(Debug)]
pub(super) struct PlotFigure {
    /// Its file's name, without an ending.
    pub(super) id: &'static str,
    pub(super) chart: Result<LineChart, String>,
}

/// Results, and where figures cut through them.
struct PlotResults<'a> {
    rows: &'a [ResultRow],
    /// The number of threads with the most sizes, the size with the most numbers of threads.
    threads: usize,
    size: usize,
    fewest: usize,
}

/// The published study's figures of one size are of 4 KB.
const PUBLISHED_SIZE: usize = 4096;

/// Reads the value of a row for a figure.
type ValueReader = fn(&ResultRow) -> Option<(f64, Option<(f64, f64)>)>;

macro_rules! column {
    ($name:literal) => {
        |row: &ResultRow| Some((row.get($name)?, row.bounds($name)))
    };
}

/// Returns all figures, in the published study's order.
pub(super) fn make_figures(rows: &[ResultRow]) -> Vec<PlotFigure> {
    let results = PlotResults::new(rows);
    let by_size = |id, name: &str, y_name, y_log, value| PlotFigure {
        id,
        chart: results.by_size(name, y_name, y_log, value),
    };
    let by_threads = |id, name: &str, y_name, value| PlotFigure {
        id,
        chart: results.by_threads(name, y_name, value),
    };
    vec![
        by_size(
            "throughput-size",
            "Throughput",
            "Gbit/s",
            true,
            column!("throughput"),
        ),
        by_threads(
            "throughput-threads",
            "Throughput",
            "Gbit/s",
            column!("throughput"),
        ),
        by_threads("latency-threads", "Latency", "mean, µs", column!("latency")),
        by_size(
            "l1-misses-size",
            "L1 misses",
            "of the server, a run",
            true,
            column!("l1_misses"),
        ),
        by_size(
            "cycles-per-byte-size",
            "Cycles per byte",
            "of the server",
            true,
            cycles_per_byte,
        ),
        by_threads(
            "context-switches-threads",
            "Context switches",
            "of the server, a run",
            column!("cs"),
        ),
        PlotFigure {
            id: "speedup-threads",
            chart: results.against_one("Speed-up", "throughput, of that of one client", |_| 1.0),
        },
        PlotFigure {
            id: "efficiency-threads",
            chart: results.against_one("Parallel efficiency", "speed-up / clients", |threads| {
                threads
            }),
        },
        PlotFigure {
            id: "crossover",
            chart: results.crossover(),
        },
        by_size(
            "cpu-size",
            "CPU time of a message",
            "ns of the server",
            true,
            column!("cpu_ns_per_message"),
        ),
    ]
}

/// Returns cycles for each byte: measured, or from the published study's columns.
fn cycles_per_byte(row: &ResultRow) -> Option<(f64, Option<(f64, f64)>)> {
    const PUBLISHED_SECONDS: f64 = 5.0;
    if let Some(value) = row.get("cycles_per_byte") {
        return Some((value, row.bounds("cycles_per_byte")));
    }
    let bytes =
        row.get("throughput")? / 8.0 * 1e9 * row.get("seconds").unwrap_or(PUBLISHED_SECONDS);
    Some((row.get("cycles")? / bytes, None))
}

impl<'a> PlotResults<'a> {
    /// Takes rows apart by variant, size and threads.
    fn new(rows: &'a [ResultRow]) -> Self {
        let distinct = |mut values: Vec<usize>| {
            values.sort_unstable();
            values.dedup();
            values
        };
        let measured = || rows.iter().filter(|row| row.get("throughput").is_some());
        let all_threads = distinct(measured().map(|row| row.threads).collect());
        let all_sizes = distinct(measured().map(|row| row.size).collect());
        let sizes_at = |threads: &usize| {
            let sizes = measured()
                .filter(|row| row.threads == *threads)
                .map(|row| row.size);
            (distinct(sizes.collect()).len(), *threads)
        };
        let threads_at = |size: &usize| {
            let threads = measured()
                .filter(|row| row.size == *size)
                .map(|row| row.threads);
            (
                distinct(threads.collect()).len(),
                *size == PUBLISHED_SIZE,
                *size,
            )
        };
        Self {
            rows,
            threads: all_threads
                .iter()
                .copied()
                .max_by_key(sizes_at)
                .unwrap_or(0),
            size: all_sizes
                .iter()
                .copied()
                .max_by_key(threads_at)
                .unwrap_or(0),
            fewest: all_threads.first().copied().unwrap_or(0),
        }
    }

    /// Returns one series a variant, of the wanted rows.
    fn series(
        &self,
        wanted: impl Fn(&ResultRow) -> bool,
        x: fn(&ResultRow) -> usize,
        value: impl Fn(&ResultRow) -> Option<(f64, Option<(f64, f64)>)>,
    ) -> Vec<ChartSeries> {
        let mut all: Vec<ChartSeries> = Vec::new();
        for row in self.rows.iter().filter(|row| wanted(row)) {
            let Some((y, bounds)) = value(row) else {
                continue;
            };
            let point = ChartPoint {
                x: x(row) as f64,
                y,
                bounds,
            };
            match all.iter_mut().find(|series| series.name == row.variant) {
                Some(series) => series.points.push(point),
                None => all.push(ChartSeries {
                    name: row.variant.clone(),
                    style: variant_style(&row.variant),
                    points: vec![point],
                }),
            }
        }
        for series in &mut all {
            series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        all
    }

    /// Makes a chart of a value over the size of messages.
    fn by_size(
        &self,
        name: &str,
        y_name: &'static str,
        y_log: bool,
        value: ValueReader,
    ) -> Result<LineChart, String> {
        let series = self.series(|row| row.threads == self.threads, |row| row.size, value);
        check_drawable(&series, name, "size")?;
        Ok(LineChart {
            title: format!("{name} by message size, {}", client_label(self.threads)),
            x_name: "message size",
            y_name,
            y_log,
            level: None,
            x_text: format_bytes,
            series,
        })
    }

    /// Makes a chart of a value over the number of threads.
    fn by_threads(
        &self,
        name: &str,
        y_name: &'static str,
        value: ValueReader,
    ) -> Result<LineChart, String> {
        let series = self.series(|row| row.size == self.size, |row| row.threads, value);
        check_drawable(&series, name, "number of threads")?;
        Ok(LineChart {
            title: format!(
                "{name} by number of clients, {}",
                format_bytes(self.size as f64)
            ),
            x_name: "clients, each with a thread at both ends",
            y_name,
            y_log: false,
            level: None,
            x_text: |threads| threads.to_string(),
            series,
        })
    }

    /// Makes a chart of the throughput relative to one client's, divided by `by`.
    fn against_one(
        &self,
        name: &str,
        y_name: &'static str,
        by: fn(f64) -> f64,
    ) -> Result<LineChart, String> {
        let mut chart = self.by_threads(name, y_name, column!("throughput"))?;
        for series in &mut chart.series {
            let one = series.points.iter().find(|point| point.x == 1.0).copied();
            series.points = one.map_or_else(Vec::new, |one| {
                let points = series.points.iter();
                points
                    .map(|point| divide_points(point, &one, by(point.x)))
                    .collect()
            });
        }
        chart.series.retain(|series| !series.points.is_empty());
        check_drawable(&chart.series, name, "number of threads with that of one")?;
        chart.level = Some(1.0);
        Ok(chart)
    }

    /// Returns the throughput of all against A1's.
    fn crossover(&self) -> Result<LineChart, String> {
        let mut chart = self.by_size(
            "Throughput against A1's",
            "ratio",
            false,
            column!("throughput"),
        )?;
        chart.title = format!(
            "Throughput against A1's by message size, {}",
            client_label(self.fewest)
        );
        let mut all = self.series(
            |row| row.threads == self.fewest,
            |row| row.size,
            column!("throughput"),
        );
        let base = all.iter().position(|series| series.name == "A1");
        let base = base.map(|place| all.remove(place));
        let base = base.ok_or_else(|| "Throughput against A1's: there is no A1".to_owned())?;
        for series in &mut all {
            let points = series.points.iter().filter_map(|point| {
                let of_base = base.points.iter().find(|other| other.x == point.x)?;
                Some(divide_points(point, of_base, 1.0))
            });
            series.points = points.collect();
        }
        check_drawable(
            &all,
            "Throughput against A1's",
            "size of another variant than A1",
        )?;
        chart.series = all;
        chart.level = Some(1.0);
        Ok(chart)
    }
}

/// Returns a quotient with bounds, for independent errors that multiply.
fn divide_points(point: &ChartPoint, one: &ChartPoint, by: f64) -> ChartPoint {
    let y = point.y / one.y / by;
    let bounds = point.bounds.zip(one.bounds).map(|(own, other)| {
        let part =
            |(low, high): (f64, f64), middle: f64| ((low / middle).ln(), (high / middle).ln());
        let (own, other) = (part(own, point.y), part(other, one.y));
        // the same value has no error against itself
        if std::ptr::eq(point, one) || point == one {
            return (y, y);
        }
        (
            y * (-own.0.hypot(other.1)).exp(),
            y * own.1.hypot(other.0).exp(),
        )
    });
    ChartPoint {
        x: point.x,
        y,
        bounds,
    }
}

/// Refuses a chart without a line; the error says what is missing.
fn check_drawable(series: &[ChartSeries], name: &str, x: &str) -> Result<(), String> {
    if series.is_empty() {
        return Err(format!("{name}: no row has what it takes"));
    }
    if series.iter().all(|series| series.points.len() < 2) {
        return Err(format!("{name}: there is no second {x}"));
    }
    Ok(())
}

/// Returns the number of a variant's look, the same in all figures.
fn variant_style(variant: &str) -> usize {
    let known = ALL.iter().position(|known| known.name() == variant);
    known.unwrap_or(super::svg::STYLES)
}

/// Returns a number of clients in words.
fn client_label(threads: usize) -> String {
    match threads {
        1 => "1 client".to_owned(),
        more => format!("{more} clients"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::csv::{self, tests::PUBLISHED};
    use super::*;

    #[test]
    fn published_sample_is_drawn_without_missing_columns() {
        let rows = csv::read("published", PUBLISHED).unwrap();
        let figures = make_figures(&rows);
        let drawn: Vec<&str> = figures
            .iter()
            .filter(|figure| figure.chart.is_ok())
            .map(|figure| figure.id)
            .collect();
        assert_eq!(
            drawn,
            [
                "throughput-size",
                "throughput-threads",
                "latency-threads",
                "l1-misses-size",
                "cycles-per-byte-size",
                "context-switches-threads",
                "speedup-threads",
                "efficiency-threads"
            ]
        );
        let efficiency = figures[7].chart.as_ref().unwrap();
        // the published study's own: 0.12 = 1/8
        let at_8 = efficiency.series[0].points.last().unwrap();
        assert!(
            (at_8.x, (at_8.y - 0.118).abs() < 0.001) == (8.0, true),
            "{at_8:?}"
        );
        let lacking: Vec<&String> = figures
            .iter()
            .filter_map(|figure| figure.chart.as_ref().err())
            .collect();
        assert_eq!(lacking.len(), 2);
        let of_what = ["Throughput against A1's", "CPU time of a message"];
        for (why, what) in lacking.iter().zip(of_what) {
            assert!(why.starts_with(what), "{why}");
        }
    }

    #[test]
    fn figure_without_its_column_has_a_reason() {
        let rows = csv::read(
            "f",
            "Impl,size,thread,throughput\nA1,64,1,0.5\nA2,64,1,0.6\n",
        )
        .unwrap();
        for figure in make_figures(&rows) {
            let why = figure.chart.unwrap_err();
            assert!(why.contains("no "), "{why}");
        }
        assert!(make_figures(&[]).iter().all(|figure| figure.chart.is_err()));
    }
}
