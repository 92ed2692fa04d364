//! `docs/causes.md` has the causes as the code has them.

use std::fmt::Write;
use std::path::Path;

use whylat_diagnose::causes::Cause;

#[test]
fn the_page_has_every_cause() -> std::io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/causes.md");
    let page = std::fs::read_to_string(path)?;
    let mut table = "| cause | what the CPU did | what you can do |\n|---|---|---|\n".to_owned();
    for cause in Cause::ALL {
        let (meaning, remedy) = (cause.meaning(), cause.remedy());
        let _ = writeln!(table, "| `{cause}` | {meaning} | {remedy} |");
    }
    assert!(
        page.contains(&format!("\n\n{table}\n")),
        "docs/causes.md lacks this table, word for word:\n{table}"
    );
    Ok(())
}
