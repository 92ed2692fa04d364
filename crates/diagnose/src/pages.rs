//! The pages of `docs/findings/`, for programs that show them where no network is.

use crate::report::{for_each_request_rule, for_each_rule};

/// Holds the page of one rule, and its name.
pub type RulePage = (&'static str, &'static str);

macro_rules! text_of {
    ($name:expr) => {
        // a link to docs/findings, so that the packed crate contains the pages
        ($name, include_str!(concat!("../findings/", $name, ".md")))
    };
}

macro_rules! add_request_rules {
    ($($connections:tt)*) => {
        for_each_request_rule! { declare_pages $($connections)* }
    };
}

macro_rules! declare_pages {
    ($($name:ident::$rule:ident),+ $(,)?) => {
        const OF_RULES: &[RulePage] = &[$(text_of!(stringify!($name))),+];
    };
}
for_each_rule!(add_request_rules);

/// Pages of rules that only slow messages have.
const OF_MESSAGES: &[RulePage] = &[
    text_of!("head_of_line_blocking"),
    text_of!("receive_interference"),
    text_of!("idle_wakeup"),
    text_of!("migration"),
    text_of!("probe_overhead"),
    text_of!("blocked_in_call"),
    text_of!("slow_function"),
    text_of!("unknown_function"),
];

/// The list of all rules, with a sentence for each.
pub const INDEX: &str = include_str!("../findings/README.md");

/// Returns every page with the name of its rule.
pub fn all_pages() -> impl Iterator<Item = RulePage> {
    OF_RULES.iter().chain(OF_MESSAGES).copied()
}

/// Returns the page of a rule; `None`: there is no such rule.
pub fn page(rule: &str) -> Option<&'static str> {
    let found = all_pages().find(|(name, _)| *name == rule);
    found.map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_page_of_the_folder_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings");
        let files = std::fs::read_dir(folder).expect("docs/findings").flatten();
        let files: BTreeSet<_> = files
            .filter_map(|it| {
                it.file_name()
                    .to_str()?
                    .strip_suffix(".md")
                    .map(str::to_owned)
            })
            .filter(|name| name != "README")
            .collect();
        let embedded: BTreeSet<_> = super::all_pages()
            .map(|(name, _)| name.to_owned())
            .collect();
        assert_eq!(embedded, files);
        for (name, text) in super::all_pages() {
            assert!(text.starts_with(&format!("# {name}\n")), "{name}");
        }
        assert_eq!(super::page("no_such_rule"), None);
    }
}
