//! The tools of an assistant, in one list.

use super::tool::ToolEntry;
use super::{answers, pages, recordings, rows};

/// Every tool, in the order in which an assistant needs them.
pub(super) const TOOLS: &[ToolEntry] = &[
    ToolEntry::of::<recordings::ListRecordings>(),
    ToolEntry::of::<answers::ShowReport>(),
    ToolEntry::of::<answers::ListFindings>(),
    ToolEntry::of::<pages::ShowPage>(),
    ToolEntry::of::<answers::ListRequests>(),
    ToolEntry::of::<answers::ShowRequest>(),
    ToolEntry::of::<rows::ListTables>(),
    ToolEntry::of::<rows::ListRows>(),
];

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_argument_is_described() {
        for tool in TOOLS {
            let schema = Value::Object(tool.schema());
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let properties = schema["properties"].as_object().expect("arguments");
            for (name, property) in properties {
                assert!(property["description"].is_string(), "{}: {name}", tool.name);
            }
        }
    }
}
