//! Every rule has its page, under its name and with its summary, and is in the index.

use std::fs;
use std::path::Path;

use whylat_diagnose::rules::RULES;
use whylat_diagnose::tail;

#[test]
fn every_rule_has_its_page() -> std::io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings");
    let index = fs::read_to_string(docs.join("README.md"))?;
    for rule in RULES {
        let (name, summary) = (rule.name(), rule.summary());
        let page = fs::read_to_string(docs.join(format!("{name}.md")))?;
        let head = format!("# {name}\n\n**{summary}.**\n");
        assert!(
            page.starts_with(&head),
            "docs/findings/{name}.md does not begin with {head:?}"
        );
        let row = format!("| [{name}]({name}.md) | {summary} |");
        assert!(
            index.contains(&row),
            "docs/findings/README.md lacks {row:?}"
        );
    }
    // rules of messages have pages of their own, but for those that connections have, too
    let of_connections = |name| RULES.iter().any(|rule| rule.name() == name);
    for (name, summary) in tail::rules() {
        let page = fs::read_to_string(docs.join(format!("{name}.md")))?;
        let head = format!("# {name}\n\n**{summary}.**\n");
        assert!(
            page.starts_with(&head) || of_connections(name) && page.contains("## Of slow messages"),
            "docs/findings/{name}.md does not begin with {head:?}"
        );
        let row = format!("| [{name}]({name}.md) | {summary} |");
        assert!(
            index.contains(&row),
            "docs/findings/README.md lacks {row:?}"
        );
    }
    let of_messages = tail::rules().filter(|(name, _)| !of_connections(name));
    let pages = fs::read_dir(&docs)?.count();
    let rules = RULES.len() + of_messages.count();
    assert_eq!(pages, rules + 1, "a page without a rule");
    Ok(())
}
