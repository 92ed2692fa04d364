//! The tool `page`: what a rule means, how it is measured, and what to do.

use anyhow::anyhow;
use diagnose::pages;
use schemars::JsonSchema;
use serde::Deserialize;

use super::pieces::ToolAnswer;
use super::root::RootFolder;
use super::tool::AssistantTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowPage {
    /// Name of a rule, such as nagle_delayed_ack [default: the list of all rules]
    rule: Option<String>,
}

impl AssistantTool for ShowPage {
    const NAME: &'static str = "page";
    const DESCRIPTION: &'static str = "Returns the page of a rule as Markdown: what happens, how whylat \
        measures it, when the rule fires, what to do. Without a rule: the list of all rules. Read the page \
        before you recommend a fix.";

    fn answer(&self, _: &RootFolder, _: u64) -> anyhow::Result<ToolAnswer> {
        let Some(rule) = &self.rule else {
            return Ok(ToolAnswer::Whole(pages::INDEX.to_owned()));
        };
        let page = pages::page(rule).ok_or_else(|| {
            let names: Vec<_> = pages::all_pages().map(|(name, _)| name).collect();
            anyhow!(
                "there is no rule {}\nhint: these have a page: {}",
                view::remove_controls(rule),
                names.join(", ")
            )
        })?;
        Ok(ToolAnswer::Whole(page.to_owned()))
    }
}
