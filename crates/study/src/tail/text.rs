//! The study as text.

use std::io::{self, Write};

use super::result::{NamedCause, RoundLatencies, StepResult, StudyResult};
use lab::LabError;

/// Prints the result as text.
pub(super) fn print(result: &StudyResult) -> Result<(), LabError> {
    let mut out = io::stdout().lock();
    write(&mut out, result)
        .map_err(|why| LabError::os("write", "stdout", why, "keep its reader open"))
}

/// Writes the result as text.
fn write(out: &mut impl Write, result: &StudyResult) -> io::Result<()> {
    let (app, cpus) = (result.app, result.cpus);
    writeln!(out, "{app} beside a busy web server, on {cpus} CPUs.")?;
    let (requests, rate, rounds) = (result.requests, result.rate, result.rounds);
    writeln!(
        out,
        "Latency of {requests} requests, {rate} a second, from when each was due to its\n\
         answer, without a recording: median of {rounds} rounds."
    )?;
    let mut steps = result.steps.iter().peekable();
    let mut number = 1;
    while let Some(step) = steps.next() {
        writeln!(out, "\n{number}  {}", step.name)?;
        write_latency(out, &step.measured)?;
        write_cause(out, step, "whylat says")?;
        if let Some(next) = steps.peek() {
            writeln!(out, "   so           {}", next.name)?;
        }
        number += 1;
    }
    write_change(out, result)?;
    let Some(mistake) = &result.mistake else {
        return Ok(());
    };
    writeln!(
        out,
        "\nAnd a change that is none for the better: {}",
        mistake.name
    )?;
    write_latency(out, &mistake.measured)?;
    write_cause(out, mistake, "whylat diff")
}

/// Writes percentiles of a round.
fn write_latency(out: &mut impl Write, measured: &RoundLatencies) -> io::Result<()> {
    let mut title = "latency";
    for (name, spread) in measured.quantiles() {
        let [least, median, most] = [spread.least_ns, spread.median_ns, spread.most_ns].map(time);
        writeln!(
            out,
            "   {title:<12} {name:<8} {median:>8}   ({least} to {most})"
        )?;
        title = "";
    }
    match measured.count_disturbed() {
        (_, 0) => Ok(()),
        (_, rounds) => writeln!(
            out,
            "   {:<12} in {rounds} of these rounds a CPU was stalled",
            ""
        ),
    }
}

/// Writes what was planted, and what the report says.
fn write_cause(out: &mut impl Write, step: &StepResult, title: &str) -> io::Result<()> {
    let Some(cause) = &step.cause else {
        return writeln!(out, "   {title:<12} nothing could be judged");
    };
    let NamedCause {
        rule,
        what,
        first,
        explained,
        ..
    } = cause;
    let wrong = match step.is_named() {
        Some(false) => "; it was not what was planted",
        _ => "",
    };
    writeln!(
        out,
        "   {title:<12} {what} [{rule}], first cause of {first} of {explained}{wrong}"
    )
}

/// Writes how the latency changed.
fn write_change(out: &mut impl Write, result: &StudyResult) -> io::Result<()> {
    let of = |step: Option<&StepResult>| step?.measured.spread("p999_ns");
    let (Some(before), Some(after)) = (of(result.steps.first()), of(result.steps.last())) else {
        return Ok(());
    };
    let (before_ns, after_ns) = (before.median_ns, after.median_ns);
    let (ratio, word) = match before_ns < after_ns {
        true => (after_ns as f64 / before_ns as f64, "more"),
        false => (before_ns as f64 / after_ns as f64, "less"),
    };
    let (before, after) = (time(before_ns), time(after_ns));
    writeln!(out, "\np99.9: {before} → {after}, {ratio:.1} times {word}")
}

/// Returns a duration with three digits.
fn time(ns: u64) -> String {
    let us = ns as f64 / 1e3;
    match us {
        ..9.995 => format!("{us:.2} µs"),
        ..99.95 => format!("{us:.1} µs"),
        ..999.5 => format!("{us:.0} µs"),
        ..9_995.0 => format!("{:.2} ms", us / 1e3),
        ..99_950.0 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.0} ms", us / 1e3),
    }
}
