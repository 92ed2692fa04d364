//! The lists of rules and causes in documents, schemas and scripts, made from the code.
//!
//! `make golden` writes them again; without that, the test says which are not current.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use whylat_diagnose::REQUEST_RULES;
use whylat_diagnose::causes::Cause;
use whylat_diagnose::report::RuleId;
use whylat_diagnose::rules::{RULES, answer_rules};
use whylat_diagnose::tail;

/// The part of a file that is generated.
struct ListSection {
    /// The file, from the root of the repository.
    file: String,
    /// The text before the part; it is there once.
    before: String,
    /// The text after it.
    after: &'static str,
    text: String,
}

#[test]
fn lists_of_rules_are_current() -> std::io::Result<()> {
    let is_update = std::env::var_os("WHYLAT_GOLDEN_UPDATE").is_some();
    let mut stale = Vec::new();
    for section in sections() {
        let path = root().join(&section.file);
        let found = fs::read_to_string(&path)?;
        let Some(current) = section.write_into(&found) else {
            panic!("{} has no {:?}", section.file, section.before);
        };
        if current != found {
            stale.push(section.file);
            if is_update {
                fs::write(&path, current)?;
            }
        }
    }
    assert!(
        stale.is_empty() || is_update,
        "lists of rules are not current: {}\nhint: `make golden` writes them",
        stale.join(", ")
    );
    Ok(())
}

#[test]
fn every_page_has_a_rule() -> std::io::Result<()> {
    let pages = fs::read_dir(root().join("docs/findings"))?.count();
    let rules = RULES.len() + rules_of_requests_only().count() + rules_of_messages_only().count();
    assert_eq!(
        pages,
        rules + 1,
        "a page without a rule, or a rule without a page"
    );
    for (name, _) in tail::list_rules().filter(|(name, _)| is_of_connections(name)) {
        let page = fs::read_to_string(root().join(format!("docs/findings/{name}.md")))?;
        assert!(
            page.contains("## Of slow messages"),
            "docs/findings/{name}.md does not say what the rule says of messages"
        );
    }
    Ok(())
}

impl ListSection {
    /// Returns `text` with this part in it; `None`: it has no place for it.
    fn write_into(&self, text: &str) -> Option<String> {
        let (head, rest) = text.split_once(&self.before)?;
        let (_, tail) = rest.split_once(self.after)?;
        Some([head, &self.before, &self.text, self.after, tail].concat())
    }
}

/// Returns every list of rules that a file has: index, schemas, causes.
fn sections() -> Vec<ListSection> {
    let names = || RuleId::ALL.iter().map(|rule| rule.name());
    // `untraced` is in reports, but is no cause.
    let of_messages = tail::list_rules().map(|(name, _)| name).chain(["untraced"]);
    let mut answers: Vec<&str> = answer_rules().map(|rule| rule.name()).collect();
    answers.sort_unstable();
    let mut sections = vec![
        index(
            "rule",
            RULES.iter().map(|rule| (rule.id().name(), rule.summary())),
        ),
        index("rule on requests", of_requests()),
        index("rule of messages", tail::list_rules()),
        schema("report", names()),
        schema("top", names()),
        schema("tail", of_messages),
        causes(),
        ListSection {
            file: "scripts/accuracy.py".into(),
            before: "\nANSWERS = (".into(),
            after: ")\n",
            text: quote_all(answers.into_iter()).join(", "),
        },
    ];
    let pages = RULES.iter().map(|rule| (rule.id().name(), rule.summary()));
    let pages = pages.chain(rules_of_requests_only());
    let pages = pages.chain(rules_of_messages_only());
    sections.extend(pages.map(page));
    sections
}

/// Returns name and summary of each rule on requests.
fn of_requests() -> impl Iterator<Item = (&'static str, &'static str)> {
    REQUEST_RULES
        .iter()
        .map(|rule| (rule.id().name(), rule.summary()))
}

fn rules_of_requests_only() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_of_connections = |name: &str| RULES.iter().any(|rule| rule.id().name() == name);
    of_requests().filter(move |(name, _)| !is_of_connections(name))
}

/// Returns the rows of an index of rules in `docs/findings/README.md`.
fn index(column: &str, rules: impl Iterator<Item = (&'static str, &'static str)>) -> ListSection {
    let mut text = String::new();
    for (name, summary) in rules {
        let _ = writeln!(text, "| [{name}]({name}.md) | {summary} |");
    }
    ListSection {
        file: "docs/findings/README.md".into(),
        before: format!("| {column} | what it says |\n|---|---|\n"),
        after: "\n##",
        text,
    }
}

/// Returns the table of `docs/causes.md`.
fn causes() -> ListSection {
    let row = |cause: &Cause| format!("| `{cause}` | {} | {} |", cause.meaning(), cause.remedy());
    let rows: Vec<_> = Cause::ALL.iter().map(row).collect();
    ListSection {
        file: "docs/causes.md".into(),
        before: "| cause | what the CPU did | what you can do |\n|---|---|---|\n".into(),
        after: "\n\n",
        text: rows.join("\n"),
    }
}

/// Returns the names of rules in a JSON schema.
fn schema(name: &str, rules: impl Iterator<Item = &'static str>) -> ListSection {
    ListSection {
        file: format!("docs/{name}.schema.json"),
        before: "    \"rule\": {\n      \"enum\": [\n        ".into(),
        after: "\n      ],\n",
        text: quote_all(rules).join(",\n        "),
    }
}

/// Returns the head of a rule's page.
fn page((name, summary): (&'static str, &'static str)) -> ListSection {
    ListSection {
        file: format!("docs/findings/{name}.md"),
        before: format!("# {name}\n\n**"),
        after: "**\n",
        text: format!("{summary}."),
    }
}

fn quote_all<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(|name| format!("\"{name}\"")).collect()
}

/// Returns rules of messages that are no rules of connections.
fn rules_of_messages_only() -> impl Iterator<Item = (&'static str, &'static str)> {
    tail::list_rules().filter(|(name, _)| !is_of_connections(name))
}

fn is_of_connections(name: &str) -> bool {
    RuleId::ALL.iter().any(|rule| rule.name() == name)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
