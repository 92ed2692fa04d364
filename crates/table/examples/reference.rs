//! Prints the reference page of all tables.
//!
//! `cargo run --release -p whylat-table --example reference > docs/tables.md`

fn main() {
    print!("{}", whylat_table::reference());
}
