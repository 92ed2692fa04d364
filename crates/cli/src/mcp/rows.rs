//! The tools `tables` and `rows`: what was recorded, without SQL.

use anyhow::{anyhow, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use table::{Field, Recording};
use view::{CellTest, Operand, RowCondition, RowSelection, TableDeclaration};

use super::pieces::{self, AnswerPiece, PIECE_BYTES, ToolAnswer};
use super::root::RootFolder;
use super::tool::AssistantTool;

/// Rows that are given by default.
const SHOWN: u64 = 50;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListTables {
    /// Path of the recording, from the root folder [default: the newest]
    recording: Option<String>,
    /// Table with the columns to list [default: the list of all tables]
    table: Option<String>,
}

#[derive(Debug, Serialize)]
struct ListedTable<'a> {
    table: &'a str,
    meaning: &'static str,
}

#[derive(Debug, Serialize)]
struct ListedColumn {
    column: &'static str,
    unit: &'static str,
    meaning: &'static str,
    /// Meaning of an absent value. Empty: there is always a value.
    #[serde(skip_serializing_if = "str::is_empty")]
    absent: &'static str,
}

impl AssistantTool for ListTables {
    const NAME: &'static str = "tables";
    const DESCRIPTION: &'static str = "Lists the tables of a recording that have rows, as JSON; with `table`: its columns, \
        with unit and meaning.";

    fn answer(&self, root: &RootFolder, _: u64) -> anyhow::Result<ToolAnswer> {
        let recording = Recording::open(root.recording_path(self.recording.as_deref())?)?;
        let Some(name) = &self.table else {
            let tables = recording.tables().map(|table| ListedTable {
                table,
                meaning: view::find_declaration(table)
                    .map_or("unknown to this whylat", |it| it.doc),
            });
            return Ok(ToolAnswer::Whole(view::json(&tables.collect::<Vec<_>>())));
        };
        let columns = find_declaration(&recording, name)?.fields.iter();
        let columns = columns.map(|field| ListedColumn {
            column: field.name,
            unit: field.unit,
            meaning: field.doc,
            absent: field.null,
        });
        Ok(ToolAnswer::Whole(view::json(&columns.collect::<Vec<_>>())))
    }
}

/// Compares the values of a column. Give `equals`, or one or both of `at_least` and `below`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ColumnFilter {
    /// Name of the column
    column: String,
    /// The value: a number, text, true or false; null: absent
    #[serde(default, deserialize_with = "deserialize_present")]
    equals: Option<Value>,
    /// The least value: a number, or text in the order of its bytes
    at_least: Option<Value>,
    /// A bound: the value is less
    below: Option<Value>,
}

/// Reads a value that is present; so null differs from a missing one.
fn deserialize_present<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListRows {
    /// Path of the recording, from the root folder [default: the newest]
    recording: Option<String>,
    /// Name of the table; the tool `tables` lists them
    table: String,
    /// Columns to give, in this order [default: all]
    #[serde(default)]
    columns: Vec<String>,
    /// Conditions that a row fulfils, all of them
    #[serde(default)]
    filters: Vec<ColumnFilter>,
    /// Rows to give, at most 1,000 [default: 50]
    limit: Option<u64>,
}

impl AssistantTool for ListRows {
    const NAME: &'static str = "rows";
    const DESCRIPTION: &'static str = "Returns rows of a table of a recording as CSV, in the order of \
        recording. You choose columns, and filter by values. Times are CLOCK_MONOTONIC ns of the recorded host.";

    fn answer(&self, root: &RootFolder, cursor: u64) -> anyhow::Result<ToolAnswer> {
        let max_rows = pieces::list_limit(self.limit, SHOWN)?;
        let recording = Recording::open(root.recording_path(self.recording.as_deref())?)?;
        let fields = find_declaration(&recording, &self.table)?.fields;
        let place = |name: &String| column_index(&self.table, fields, name);
        let mut columns: Vec<usize> = self.columns.iter().map(place).collect::<Result<_, _>>()?;
        if columns.is_empty() {
            columns = (0..fields.len()).collect();
        }
        let mut conditions = Vec::new();
        for filter in &self.filters {
            let column = place(&filter.column)?;
            conditions.extend(
                filter
                    .cell_tests()?
                    .map(|test| RowCondition { column, test }),
            );
        }
        let selection = RowSelection {
            columns,
            conditions,
            skip: cursor,
            max_rows,
            max_bytes: PIECE_BYTES,
        };
        let selected = view::selected_csv(&recording, &self.table, &selection);
        let problems = recording.problems();
        let damage: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Ok(ToolAnswer::Entries(AnswerPiece {
            text: selected.csv,
            warning: (!damage.is_empty())
                .then(|| format!("rows are missing: {}", damage.join("; "))),
            rest: selected.next.map(|next| ("more rows".to_owned(), next)),
        }))
    }
}

impl ColumnFilter {
    /// Returns the tests of a column's cells.
    fn cell_tests(&self) -> anyhow::Result<impl Iterator<Item = CellTest>> {
        let name = view::remove_controls(&self.column);
        let is_range = self.at_least.is_some() || self.below.is_some();
        if self.equals.is_some() == is_range {
            bail!(
                "the filter of {name} needs either `equals`, or `at_least` or `below`\n\
                 hint: {{\"column\": \"{name}\", \"at_least\": 1000000}}"
            );
        }
        let operand = |given: &Option<Value>| {
            given
                .as_ref()
                .map(|it| parse_operand(&name, it))
                .transpose()
        };
        let equals = operand(&self.equals)?.map(CellTest::Equals);
        let at_least = operand(&self.at_least)?.map(CellTest::AtLeast);
        let below = operand(&self.below)?.map(CellTest::Below);
        Ok([equals, at_least, below].into_iter().flatten())
    }
}

/// Reads what a cell is compared with.
fn parse_operand(column: &str, given: &Value) -> anyhow::Result<Operand> {
    let whole = |number: &serde_json::Number| {
        let unsigned = number.as_u64().map(i128::from);
        unsigned.or_else(|| number.as_i64().map(i128::from))
    };
    match given {
        Value::Null => Ok(Operand::Absent),
        Value::Bool(yes) => Ok(Operand::Is(*yes)),
        Value::Number(number) => match (whole(number), number.as_f64()) {
            (Some(whole), _) => Ok(Operand::Whole(whole)),
            (None, Some(real)) => Ok(Operand::Real(real)),
            (None, None) => bail!("cannot compare {column} with {number}"),
        },
        Value::String(text) => Ok(Operand::Text(text.clone())),
        Value::Array(_) | Value::Object(_) => bail!(
            "cannot compare {column} with a list or an object\n\
             hint: give a number, text, true, false or null"
        ),
    }
}

/// Returns the position of a column; an error names the columns that exist.
fn column_index(table: &str, fields: &[Field], name: &str) -> anyhow::Result<usize> {
    let found = fields.iter().position(|field| field.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = fields.iter().map(|field| field.name).collect();
        anyhow!(
            "table {table} has no column {}\nhint: it has {}",
            view::remove_controls(name),
            names.join(", ")
        )
    })
}

/// Returns the declaration of a table that a recording has.
fn find_declaration(recording: &Recording, table: &str) -> anyhow::Result<TableDeclaration> {
    crate::export::require_table(recording, table)?;
    Ok(view::find_declaration(table).expect("a table that is known"))
}
