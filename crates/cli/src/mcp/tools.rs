//! The tools of an assistant, in one list.

use super::tool::ToolEntry;
use super::{answers, pages, recordings, rows};

/// Every tool, in the order in which an assistant needs them.
pub(super) const TOOLS: &[ToolEntry] = &[
    ToolEntry::from_tool::<recordings::ListRecordings>(),
    ToolEntry::from_tool::<answers::ShowReport>(),
    ToolEntry::from_tool::<answers::ListFindings>(),
    ToolEntry::from_tool::<pages::ShowPage>(),
    ToolEntry::from_tool::<answers::ListRequests>(),
    ToolEntry::from_tool::<answers::ShowRequest>(),
    ToolEntry::from_tool::<rows::ListTables>(),
    ToolEntry::from_tool::<rows::ListRows>(),
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
