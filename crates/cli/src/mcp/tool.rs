//! A tool: its name, the schema of its arguments, and its answer.

use std::sync::Arc;

use anyhow::anyhow;
use rmcp::handler::server::tool::schema_for_input;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::pieces::ToolAnswer;
use super::root::RootFolder;

/// The argument that every tool has: where to go on.
const CURSOR: &str = "cursor";

/// A tool: its arguments, and how it answers. The doc comments of the arguments are their descriptions.
pub(super) trait AssistantTool: DeserializeOwned + JsonSchema + 'static {
    /// Name of the tool.
    const NAME: &'static str;
    /// Says what it answers.
    const DESCRIPTION: &'static str;

    /// Answers a call; a list begins at the cursor.
    fn answer(&self, root: &RootFolder, cursor: u64) -> anyhow::Result<ToolAnswer>;
}

/// Holds a tool without its type.
#[derive(Clone, Copy)]
pub(super) struct ToolEntry {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    schema: fn() -> Arc<JsonObject>,
    answer: fn(JsonObject, &RootFolder, u64) -> anyhow::Result<ToolAnswer>,
}

impl ToolEntry {
    /// Makes the entry of a tool: name, schema and function.
    pub(super) const fn from_tool<T: AssistantTool>() -> Self {
        Self {
            name: T::NAME,
            description: T::DESCRIPTION,
            schema: || schema_for_input::<T>().expect("arguments are an object"),
            answer: |arguments, root, cursor| parse::<T>(arguments)?.answer(root, cursor),
        }
    }

    /// Returns the JSON schema of the arguments, with the cursor.
    pub(super) fn schema(&self) -> JsonObject {
        let mut schema = (*(self.schema)()).clone();
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        properties[CURSOR] = json!({
            "description": "Where to continue: the cursor of the answer before",
            "type": "integer",
            "minimum": 0,
        });
        schema
    }

    /// Answers a call with these arguments, but for the cursor.
    pub(super) fn answer(
        &self,
        arguments: JsonObject,
        root: &RootFolder,
        cursor: u64,
    ) -> anyhow::Result<ToolAnswer> {
        (self.answer)(arguments, root, cursor)
    }
}

/// Removes the cursor from the arguments of a call; 0 without one.
pub(super) fn take_cursor(arguments: &mut JsonObject) -> anyhow::Result<u64> {
    match arguments.remove(CURSOR) {
        None | Some(Value::Null) => Ok(0),
        Some(given) => given.as_u64().ok_or_else(|| {
            anyhow!("{given} is no cursor\nhint: call without one, and then with the cursor of each answer")
        }),
    }
}

/// Reads the arguments of a tool.
fn parse<T: AssistantTool>(arguments: JsonObject) -> anyhow::Result<T> {
    T::deserialize(Value::Object(arguments)).map_err(|why| {
        anyhow!(
            "cannot read the arguments of {}: {why}\n\
             hint: the list of tools has the schema of its arguments",
            T::NAME
        )
    })
}
