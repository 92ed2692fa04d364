//! A line chart as SVG: points with error bars, a logarithmic axis or not, a legend. Colours come from a style sheet,
//! so that the drawing follows the ground that it is on.

use std::fmt::Write;

use super::doc::{escape, format_digits};

/// A value with its 95 % interval, where there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChartPoint {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) bounds: Option<(f64, f64)>,
}

/// Points of one name, in order of x.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChartSeries {
    pub(super) name: String,
    /// Index of its colour and mark, the same in all figures.
    pub(super) style: usize,
    pub(super) points: Vec<ChartPoint>,
}

/// A line chart; its x axis is always logarithmic, to base 2.
#[derive(Debug, Clone)]
pub(super) struct LineChart {
    pub(super) title: String,
    pub(super) x_name: &'static str,
    pub(super) y_name: &'static str,
    pub(super) y_log: bool,
    /// A line across, at this value.
    pub(super) level: Option<f64>,
    pub(super) x_text: fn(f64) -> String,
    pub(super) series: Vec<ChartSeries>,
}

/// Number of colours, each with a mark of its own; further lines are grey.
pub(super) const STYLES: usize = 10;

/// Colours of a drawing in a file of its own: those of the viewer (web/src/theme), light and dark.
const STYLE: &str = "\
svg{--ground:#fff;--ink:#1b1f24;--soft:#58616d;--line:#e1e4e8;--c0:#0072b2;--c1:#e69f00;--c2:#009e73;--c3:#cc79a7;\
--c4:#56b4e9;--c5:#d55e00;--c6:#7d6bc4;--c7:#b5a11a;--c8:#7a4a1e;--c9:#1b1f24;--c10:#8a929c;background:var(--ground)}\
@media(prefers-color-scheme:dark){svg{--ground:#1a1e25;--ink:#e4e7eb;--soft:#9ba5b1;--line:#2b313a;--c0:#3a94d4;\
--c7:#d9c32b;--c8:#b98a5e;--c9:#e4e7eb}}";
/// Style of the drawing's parts, on any page.
const PARTS: &str = include_str!("chart.css");

const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 132.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;

/// Returns the drawing as an element of a page that has the styles.
pub(super) fn draw(chart: &LineChart) -> String {
    element(chart, "")
}

/// Returns the drawing as a file.
pub(super) fn draw_file(chart: &LineChart) -> String {
    element(chart, &format!("<style>{STYLE}{PARTS}</style>"))
}

/// Returns a chart as an SVG element.
fn element(chart: &LineChart, style: &str) -> String {
    let axes = ChartAxes::new(chart);
    let title = escape(&chart.title);
    let mut svg = format!(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{title}\">{style}<text class=\"title\" x=\"{LEFT}\" y=\"18\">{title}</text>"
    );
    axes.draw(&mut svg, chart);
    for (place, series) in chart.series.iter().enumerate() {
        axes.draw_series(&mut svg, series);
        draw_legend(&mut svg, series, place);
    }
    svg + "</svg>\n"
}

/// Writing to a string cannot fail.
macro_rules! put {
    ($svg:expr, $($words:tt)*) => {{
        let _ = write!($svg, $($words)*);
    }};
}

/// Draws the line of a series in the legend.
fn draw_legend(svg: &mut String, series: &ChartSeries, place: usize) {
    let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 10.0 + 18.0 * place as f64);
    draw_mark(svg, series.style, x, y);
    put!(
        svg,
        "<text x=\"{}\" y=\"{}\">{}</text>",
        x + 10.0,
        y + 4.0,
        escape(&series.name)
    );
}

/// Shapes of marks, by style: lines can be distinguished without colours. The first is a circle, as is that of further lines.
const SHAPES: [&[(f64, f64)]; STYLES - 1] = [
    // square, triangle, diamond, triangle on its tip
    &[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)],
    &[(0.0, -4.2), (4.0, 3.0), (-4.0, 3.0)],
    &[(0.0, -4.4), (4.4, 0.0), (0.0, 4.4), (-4.4, 0.0)],
    &[(0.0, 4.2), (4.0, -3.0), (-4.0, -3.0)],
    // plus, cross
    &[
        (-1.2, -4.2),
        (1.2, -4.2),
        (1.2, -1.2),
        (4.2, -1.2),
        (4.2, 1.2),
        (1.2, 1.2),
        (1.2, 4.2),
        (-1.2, 4.2),
        (-1.2, 1.2),
        (-4.2, 1.2),
        (-4.2, -1.2),
        (-1.2, -1.2),
    ],
    &[
        (0.0, -1.6),
        (2.4, -4.0),
        (4.0, -2.4),
        (1.6, 0.0),
        (4.0, 2.4),
        (2.4, 4.0),
        (0.0, 1.6),
        (-2.4, 4.0),
        (-4.0, 2.4),
        (-1.6, 0.0),
        (-4.0, -2.4),
        (-2.4, -4.0),
    ],
    // hourglass, bow tie, bar
    &[(-4.0, -4.0), (4.0, -4.0), (-4.0, 4.0), (4.0, 4.0)],
    &[(-4.0, -4.0), (4.0, 4.0), (4.0, -4.0), (-4.0, 4.0)],
    &[(-4.6, -1.6), (4.6, -1.6), (4.6, 1.6), (-4.6, 1.6)],
];

/// Draws the mark of a value.
fn draw_mark(svg: &mut String, style: usize, x: f64, y: f64) {
    let class = style.min(STYLES);
    let Some(points) = style.checked_sub(1).and_then(|at| SHAPES.get(at)) else {
        put!(
            svg,
            "<circle class=\"mark s{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.4\"/>"
        );
        return;
    };
    put!(svg, "<polygon class=\"mark s{class}\" points=\"");
    for (dx, dy) in *points {
        put!(svg, "{:.1},{:.1} ", x + dx, y + dy);
    }
    put!(svg, "\"/>");
}

/// Scales of a drawing, from values to positions.
struct ChartAxes {
    x: (f64, f64),
    y: (f64, f64),
    y_log: bool,
}

impl ChartAxes {
    /// Chooses the ranges of both axes.
    fn new(chart: &LineChart) -> Self {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let ends = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::MAX, f64::MIN), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        };
        let x = ends(&mut points().map(|point| point.x.log2()));
        let values = points().flat_map(|point| {
            let (low, high) = point.bounds.unwrap_or((point.y, point.y));
            [point.y, low, high]
        });
        let mut y = ends(
            &mut values
                .chain(chart.level)
                .filter(|y| !chart.y_log || *y > 0.0),
        );
        if chart.y_log {
            y = (y.0.log10(), y.1.log10());
            let room = ((y.1 - y.0) * 0.05).max(0.05);
            y = (y.0 - room, y.1 + room);
        } else {
            let low = if y.0 > 0.6 * y.1 { y.0 } else { y.0.min(0.0) };
            let room = ((y.1 - low) * 0.06).max(y.1.abs() * 1e-3).max(1e-9);
            y = (if low == 0.0 { 0.0 } else { low - room }, y.1 + room);
        }
        let y_log = chart.y_log;
        Self { x, y, y_log }
    }

    /// Returns the horizontal position of a value, in pixels.
    fn x(&self, value: f64) -> f64 {
        let span = (self.x.1 - self.x.0).max(1e-9);
        LEFT + 12.0 + (value.log2() - self.x.0) / span * (WIDTH - LEFT - RIGHT - 24.0)
    }

    /// Returns the vertical position of a value, in pixels.
    fn y(&self, value: f64) -> f64 {
        let value = if self.y_log {
            value.max(1e-300).log10()
        } else {
            value
        };
        let part = (value - self.y.0) / (self.y.1 - self.y.0);
        HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    /// Draws both axes with their numbers.
    fn draw(&self, svg: &mut String, chart: &LineChart) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for value in self.y_ticks() {
            let y = self.y(value);
            put!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
            let text = tick_label(value);
            put!(
                svg,
                "<text text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{text}</text>",
                LEFT - 7.0,
                y + 4.0
            );
        }
        let points = chart.series.iter().flat_map(|series| &series.points);
        let mut xs: Vec<f64> = points.map(|point| point.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        for value in xs {
            let text = (chart.x_text)(value);
            put!(
                svg,
                "<text text-anchor=\"middle\" x=\"{:.1}\" y=\"{}\">{text}</text>",
                self.x(value),
                bottom + 17.0
            );
        }
        let middle = f64::midpoint(LEFT, right);
        put!(
            svg,
            "<text text-anchor=\"middle\" x=\"{middle}\" y=\"{}\">{}</text>",
            bottom + 37.0,
            chart.x_name
        );
        let middle = f64::midpoint(TOP, bottom);
        put!(
            svg,
            "<text text-anchor=\"middle\" transform=\"translate(14 {middle}) rotate(-90)\">{}</text>",
            chart.y_name
        );
        if let Some(level) = chart.level {
            let y = self.y(level);
            put!(
                svg,
                "<line class=\"level\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
        }
    }

    /// Draws a series: its line and its marks.
    fn draw_series(&self, svg: &mut String, series: &ChartSeries) {
        let class = series.style.min(STYLES);
        put!(svg, "<polyline class=\"line s{class}\" points=\"");
        for point in &series.points {
            put!(svg, "{:.1},{:.1} ", self.x(point.x), self.y(point.y));
        }
        put!(svg, "\"/>");
        for point in &series.points {
            let x = self.x(point.x);
            if let Some((low, high)) = point.bounds {
                let (from, to) = (self.y(low), self.y(high));
                for (x1, x2, y1, y2) in [
                    (x, x, from, to),
                    (x - 3.0, x + 3.0, from, from),
                    (x - 3.0, x + 3.0, to, to),
                ] {
                    put!(
                        svg,
                        "<line class=\"bar s{class}\" x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\"/>"
                    );
                }
            }
            draw_mark(svg, series.style, x, self.y(point.y));
        }
    }

    /// Returns the round values that the vertical axis shows.
    fn y_ticks(&self) -> Vec<f64> {
        if self.y_log {
            let decades = self.y.1 - self.y.0;
            let steps: &[f64] = if decades > 3.0 {
                &[1.0]
            } else {
                &[1.0, 2.0, 5.0]
            };
            let powers = self.y.0.floor() as i32..=self.y.1.ceil() as i32;
            let all =
                powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
            return all
                .filter(|value| (self.y.0..=self.y.1).contains(&value.log10()))
                .collect();
        }
        let rough = (self.y.1 - self.y.0) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let (first, last) = (
            (self.y.0 / step).ceil() as i64,
            (self.y.1 / step).floor() as i64,
        );
        (first..=last).map(|nth| nth as f64 * step).collect()
    }
}

/// Returns a value beside the axis: 2.5 G, 30 k, 0.05.
fn tick_label(value: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (factor, unit) = UNITS
        .into_iter()
        .find(|(factor, _)| value.abs() >= *factor)
        .unwrap_or((1.0, ""));
    let text = format_digits(value / factor);
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Makes a chart; `y_log` chooses a logarithmic axis.
    fn chart(y_log: bool) -> LineChart {
        let point = |x: f64, y: f64| ChartPoint {
            x,
            y,
            bounds: Some((y * 0.9, y * 1.2)),
        };
        LineChart {
            title: "a < b".to_owned(),
            x_name: "x",
            y_name: "y",
            y_log,
            level: Some(1.0),
            x_text: |x| x.to_string(),
            series: vec![ChartSeries {
                name: "A&1".to_owned(),
                style: 12,
                points: vec![point(1.0, 0.5), point(8.0, 4.0)],
            }],
        }
    }

    #[test]
    fn marks_lie_within_the_drawing() {
        for y_log in [false, true] {
            let chart = chart(y_log);
            let svg = draw_file(&chart);
            assert!(svg.contains("a &lt; b") && svg.contains("A&amp;1") && !svg.contains("NaN"));
            assert_eq!(svg.matches("class=\"bar").count(), 6);
            let axes = ChartAxes::new(&chart);
            for point in &chart.series[0].points {
                assert!((LEFT..=WIDTH - RIGHT).contains(&axes.x(point.x)));
                for y in [point.y, point.y * 0.9, point.y * 1.2] {
                    assert!((TOP..=HEIGHT - BOTTOM).contains(&axes.y(y)));
                }
            }
            let ticks = axes.y_ticks().len();
            assert!((3..=12).contains(&ticks), "{ticks}");
        }
    }

    #[test]
    fn ten_lines_have_ten_colours_and_ten_marks() {
        let shape = |style| {
            let mut svg = String::new();
            draw_mark(&mut svg, style, 0.0, 0.0);
            svg.replace(&format!(" s{style}"), "")
        };
        let shapes: HashSet<String> = (0..STYLES).map(shape).collect();
        assert_eq!(shapes.len(), STYLES);
        let (light, dark) = STYLE.split_once("@media").expect("a dark ground");
        let colour = |style: usize| {
            let (_, value) = light.split_once(&format!("--c{style}:"))?;
            value.get(..7)
        };
        let colours: HashSet<&str> = (0..=STYLES).filter_map(colour).collect();
        assert_eq!(colours.len(), STYLES + 1, "grey is the last");
        for style in [8, 9] {
            assert!(dark.contains(&format!("--c{style}:")), "{style}");
        }
        let classes = (0..=STYLES).filter(|style| PARTS.contains(&format!(".s{style}{{")));
        assert_eq!(classes.count(), STYLES + 1);
    }

    #[test]
    fn ticks_are_short() {
        for (value, text) in [
            (2.5e9, "2.5 G"),
            (30_000.0, "30 k"),
            (0.05, "0.05"),
            (0.0, "0"),
            (10.0, "10"),
        ] {
            assert_eq!(tick_label(value), text);
        }
    }
}
