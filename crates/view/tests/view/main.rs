//! Views of recordings against committed answers: one program, because each links all of the tables and analyses.

mod check;
mod compare;
mod csv;
mod diff;
mod drops;
mod fixture;
mod golden;
mod html;
mod messages;
mod requests;
mod schema;
mod tail;
mod top;
mod waits;
