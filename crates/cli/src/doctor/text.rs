//! The doctor's findings for people: a line for each state of each purpose, and each remedy once.

use table::manifest::{Coverage, ProbeState, join_reason};

use super::host_report::HostReport;

/// Columns of the word before the names of probes.
const MARK: usize = 10;

/// Columns of a line after that word.
const ROOM: usize = view::MOST_COLUMNS - MARK - 3;

/// Returns the whole text.
pub(super) fn text(report: &HostReport) -> String {
    let kernel = report.kernel.split(' ').next().unwrap_or_default();
    let mut text = format!(
        "kernel       {kernel}\nCPUs         {}\nclock        {}\nprivileges   {}\n",
        report.cpus, report.clocksource, report.privileges
    );
    for group in &report.groups {
        text += &format!("\n{}: {}\n", group.title, group.state.describe_state());
        let rows: Vec<&Coverage> = report
            .rows()
            .filter(|row| group.probes.contains(&row.probe))
            .collect();
        for line in lines(&rows) {
            text += &line.text();
        }
    }
    text + &list_remedies(report)
}

/// Probes in the same state for the same reason.
struct Line<'a> {
    mark: &'static str,
    probes: Vec<&'a str>,
    why: String,
}

impl Line<'_> {
    /// Returns the line, wrapped below its mark.
    fn text(&self) -> String {
        let probes = self.probes.join(", ");
        let words = match self.why.is_empty() {
            true => probes,
            false => format!("{probes}: {}", self.why),
        };
        let mut text = String::new();
        let marks = std::iter::once(self.mark).chain(std::iter::repeat(""));
        for (mark, part) in marks.zip(view::wrap(&words, ROOM)) {
            text += &format!("  {mark:<MARK$} {part}\n");
        }
        text
    }
}

/// Returns a line for each state, in the order of their first probes.
fn lines<'a>(rows: &[&'a Coverage]) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for row in rows {
        let (mark, why) = state(row);
        let same = |line: &&mut Line<'_>| line.mark == mark && line.why == why;
        match lines.iter_mut().find(same) {
            Some(line) => line.probes.push(&row.probe),
            None => lines.push(Line {
                mark,
                probes: vec![&row.probe],
                why,
            }),
        }
    }
    lines
}

/// Returns the mark of a probe, and why it is not on.
fn state(row: &Coverage) -> (&'static str, String) {
    match &row.state {
        ProbeState::On => ("ok", String::new()),
        ProbeState::Fallback { which, why } => ("partly", join_reason(which, why)),
        // Nobody can fix it, so nobody misses it.
        ProbeState::Off { why, remedy } if remedy.is_empty() => ("not here", why.clone()),
        ProbeState::Off { why, .. } => ("no", why.clone()),
    }
}

/// Returns each remedy with the probes that need it. A remedy may contain a command, so its line is not wrapped.
fn list_remedies(report: &HostReport) -> String {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in report.rows() {
        let ProbeState::Off { remedy, .. } = &row.state else {
            continue;
        };
        if remedy.is_empty() {
            continue;
        }
        match all.iter_mut().find(|(known, _)| known == remedy) {
            Some((_, probes)) => probes.push(&row.probe),
            None => all.push((remedy, vec![&row.probe])),
        }
    }
    let mut text = String::new();
    for (remedy, probes) in all {
        text += &format!("\nhint: {remedy}\n");
        for line in view::wrap(&format!("for {}", probes.join(", ")), ROOM) {
            text += &format!("      {line}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the line of a probe.
    fn row(probe: &str, state: ProbeState) -> Coverage {
        let probe = probe.to_owned();
        Coverage { probe, state }
    }

    #[test]
    fn equal_causes_share_a_line() {
        let off = || ProbeState::Off {
            why: "not permitted".to_owned(),
            remedy: "sudo".to_owned(),
        };
        let rows = [
            row("a", off()),
            row("b", ProbeState::On),
            row("c", off()),
            row("d", ProbeState::On),
        ];
        let rows: Vec<&Coverage> = rows.iter().collect();
        let text: String = lines(&rows).iter().map(Line::text).collect();
        let known = "  no         a, c: not permitted\n  ok         b, d\n";
        assert_eq!(text, known);
    }
}
