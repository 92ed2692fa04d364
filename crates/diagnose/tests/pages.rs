//! Every rule has its page, under its name and with its summary, and is in the index.

use std::fs;
use std::path::Path;

use whylat_diagnose::rules::RULES;

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
    let pages = fs::read_dir(&docs)?.count();
    assert_eq!(pages, RULES.len() + 1, "a page without a rule");
    Ok(())
}
