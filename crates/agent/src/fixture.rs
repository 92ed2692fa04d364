//! Rows for the tests of several modules.

use serde_json::Value;
use table::Table;
use table::fleet::FleetCoverage;

/// Returns the coverage of a host for a minute: with these members, and 0 for others that are never null.
pub(crate) fn coverage(members: Value) -> FleetCoverage {
    let mut row = serde_json::json!({
        "host": "web-1", "boot_id": "", "agent": "", "kernel": "", "detail": "calls", "length_us": 60_000_000,
    });
    for field in FleetCoverage::FIELDS
        .iter()
        .filter(|field| field.null.is_empty())
    {
        if row.get(field.name).is_none() {
            row[field.name] = 0.into();
        }
    }
    for (name, value) in members.as_object().into_iter().flatten() {
        row[name] = value.clone();
    }
    table::row_of(row).expect("a row")
}
