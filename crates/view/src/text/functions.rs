//! Functions that ran while requests computed, with their shares and how many samples stand behind these.

use diagnose::requests::PartShares;
use diagnose::requests::RequestPart;
use diagnose::requests::functions::{
    FunctionShare, FunctionShares, SAMPLES_LEAST, ServiceFunctions, ShareBounds,
};
use diagnose::units::{count, percent, quantity};

use crate::layout::{Style, TextLayout};

/// Functions of a list.
const LISTED: usize = 8;

/// Width of a function's name, and of a number.
const NAME: usize = 38;
const CELL: usize = 10;

/// Columns of the list; a narrower page has a paragraph for each function.
const WIDE: usize = 2 + NAME + 3 * CELL;

/// Returns the function with the most samples, with its share of all time: `handle 38 %`; `None`: there are too few.
pub(super) fn first_function(
    parts: &PartShares,
    functions: Option<&FunctionShares>,
) -> Option<String> {
    let first = functions?.functions.first()?;
    let share = first.share.filter(|_| first.samples >= SAMPLES_LEAST)?;
    let of_all = share.share * parts.share(RequestPart::Cpu);
    Some(format!("{} {:.0} %", first.function, of_all * 100.0))
}

/// Draws the functions of a service.
pub(super) fn draw_service(layout: &mut TextLayout, functions: &ServiceFunctions) {
    let ServiceFunctions { all, slowest } = functions;
    layout.blank();
    draw_list(layout, "functions while computing", all);
    if slowest.samples < all.samples && slowest.samples > 0 {
        draw_list(layout, "the same, slowest 1 %", slowest);
    }
}

/// Draws the functions of one request.
pub(super) fn request(layout: &mut TextLayout, functions: &FunctionShares) {
    layout.blank();
    draw_list(layout, "functions while computing", functions);
}

/// Writes functions by their share of samples.
fn draw_list(layout: &mut TextLayout, title: &str, functions: &FunctionShares) {
    let samples = quantity(functions.samples, "sample");
    let in_kernel = diagnose::units::ratio_of(functions.in_kernel, functions.samples);
    let head = match functions.has_shares() {
        true => format!("{title}: {samples}, {} in the kernel", percent(in_kernel)),
        false => format!("{title}: {samples}; shares need {SAMPLES_LEAST}"),
    };
    layout.paragraph(2, Style::Dim, &head);
    let is_wide = layout.width() >= WIDE;
    for function in functions.functions.iter().take(LISTED) {
        let name = title_of(function);
        let number = count(function.samples);
        let (share, bounds) = match &function.share {
            Some(share) => (percent(share.share), format_bounds(share)),
            None => (String::new(), String::new()),
        };
        if is_wide && name.chars().count() < NAME {
            let line = format!("{name:NAME$}{share:>CELL$}{bounds:>CELL$}{number:>CELL$}");
            layout.line(2, &[(Style::Plain, line.trim_end())]);
        } else {
            let words: Vec<_> = [share, bounds]
                .into_iter()
                .filter(|it| !it.is_empty())
                .collect();
            let samples = quantity(function.samples, "sample");
            let text = format!("{name}: {}", [words, vec![samples]].concat().join(", "));
            layout.paragraph(2, Style::Plain, &text);
        }
    }
    let rest = functions.functions.iter().skip(LISTED);
    let others = functions.others + rest.map(|it| it.samples).sum::<u64>();
    if others > 0 {
        let text = format!("other functions: {}", quantity(others, "sample"));
        layout.paragraph(2, Style::Dim, &text);
    }
    for unnamed in &functions.unnamed {
        let samples = quantity(unnamed.samples, "sample");
        let remedy = unnamed.remedy.map(|it| format!(" To see names: {it}."));
        let text = format!(
            "without a name: {samples}: {}.{}",
            unnamed.why,
            remedy.unwrap_or_default()
        );
        layout.paragraph(2, Style::Dim, &text);
    }
}

/// Returns the function's name and its place in the source.
fn title_of(function: &FunctionShare) -> String {
    let file = function
        .source
        .as_deref()
        .and_then(|it| it.rsplit('/').next());
    match (file, function.line) {
        (Some(file), Some(line)) => format!("{} ({file}:{line})", function.function),
        (Some(file), None) => format!("{} ({file})", function.function),
        (None, _) => function.function.clone(),
    }
}

/// Returns both bounds of a share, in percent.
fn format_bounds(share: &ShareBounds) -> String {
    format!("{:.0}–{:.0} %", share.low * 100.0, share.high * 100.0)
}
