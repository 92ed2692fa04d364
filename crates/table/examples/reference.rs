//! Prints the reference page of all tables of a recording, or with `fleet` that of the tables that agents write.
//!
//! `cargo run --release -p whylat-table --example reference > docs/tables.md`

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("fleet") => print!("{}", whylat_table::fleet_reference()),
        _ => print!("{}", whylat_table::reference()),
    }
}
