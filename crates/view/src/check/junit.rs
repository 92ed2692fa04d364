//! JUnit's XML, as most systems for continuous integration read it: a test case for each count and each finding.

use diagnose::check::report::{CheckFailure, CheckReport, FailureKind};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use crate::clean::remove_controls;

/// Name of the suite, and first part of the class names.
const SUITE: &str = "whylat";

/// Writes the check as a JUnit test suite.
///
/// # Errors
/// None: it is written to memory.
pub fn write_junit(report: &CheckReport) -> std::io::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    let passed: Vec<_> = passed_counts(report).collect();
    let tests = (passed.len() + report.failures.len()).to_string();
    let failures = report.failures.len().to_string();
    let numbers = [("tests", tests.as_str()), ("failures", &failures)];
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let suites = BytesStart::new("testsuites").with_attributes(numbers);
    writer.write_event(Event::Start(suites))?;
    let suite = BytesStart::new("testsuite").with_attributes([("name", SUITE)]);
    let suite = suite.with_attributes(numbers);
    writer.write_event(Event::Start(suite))?;
    for failure in &report.failures {
        write_failure(&mut writer, failure)?;
    }
    for (kind, name) in passed {
        writer.write_event(Event::Empty(case_start(kind, name)))?;
    }
    writer.write_event(Event::End(BytesEnd::new("testsuite")))?;
    writer.write_event(Event::End(BytesEnd::new("testsuites")))?;
    let mut text = String::from_utf8(writer.into_inner()).unwrap_or_default();
    text.push('\n');
    Ok(text)
}

/// Returns the counts within their limit; without any, one case for all findings.
fn passed_counts(report: &CheckReport) -> impl Iterator<Item = (FailureKind, &str)> {
    let failed = |kind, name: &str| {
        let mut failures = report.failures.iter();
        failures.any(|it| it.kind == kind && it.name == name)
    };
    let counts = report
        .counts
        .iter()
        .filter(|it| it.limit.is_some() && it.median.is_some());
    let counts = counts.map(|it| (FailureKind::Count, it.name));
    let has_failed = report
        .failures
        .iter()
        .any(|it| it.kind == FailureKind::Finding);
    let findings = (!has_failed).then_some((FailureKind::Finding, "no_new_finding"));
    counts
        .filter(move |(kind, name)| !failed(*kind, name))
        .chain(findings)
}

/// Begins the test case of a check, by its kind and name.
fn case_start(kind: FailureKind, name: &str) -> BytesStart<'static> {
    let class = match kind {
        FailureKind::Finding => "findings",
        FailureKind::Count => "counts",
        FailureKind::Limit => "limits",
    };
    let class = format!("{SUITE}.{class}");
    let name = remove_controls(name);
    BytesStart::new("testcase").with_attributes([("classname", class.as_str()), ("name", &name)])
}

fn write_failure(writer: &mut Writer<Vec<u8>>, failure: &CheckFailure) -> std::io::Result<()> {
    let message = remove_controls(&failure.text);
    writer.write_event(Event::Start(case_start(failure.kind, &failure.name)))?;
    let start = BytesStart::new("failure").with_attributes([("message", message.as_str())]);
    writer.write_event(Event::Start(start))?;
    let text = format!("{message}\nhint: {}", remove_controls(&failure.hint));
    writer.write_event(Event::Text(BytesText::new(&text)))?;
    writer.write_event(Event::End(BytesEnd::new("failure")))?;
    writer.write_event(Event::End(BytesEnd::new("testcase")))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn every_failure_is_a_case_with_escaped_text() {
        let text = write_junit(&fixture::failed_report()).expect("XML");
        assert!(
            text.contains("<testsuite name=\"whylat\" tests=\"3\" failures=\"3\">"),
            "{text}"
        );
        assert!(
            text.contains("message=\"A &lt;b&gt; sent &quot;300&quot;: one, by one\""),
            "{text}"
        );
        assert!(
            text.contains("& well") || text.contains("&amp; well"),
            "{text}"
        );
        assert!(!text.contains("& well"), "{text}");
    }

    #[test]
    fn passed_check_has_a_case() {
        let text = write_junit(&fixture::passed_report()).expect("XML");
        assert!(text.contains("tests=\"1\" failures=\"0\""), "{text}");
        assert!(text.contains("name=\"no_new_finding\""), "{text}");
    }
}
