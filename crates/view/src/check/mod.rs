//! The answer to `whylat check`, for people and for the programs that show it: text, Markdown, annotations of GitHub,
//! JUnit's XML and SARIF. JSON is the contract `whylat.check/1` itself.

#[cfg(test)]
mod fixture;
mod github;
mod headline;
mod junit;
mod markdown;
mod sarif;
mod text;

pub use github::write_github;
pub use junit::write_junit;
pub use markdown::write_markdown;
pub use sarif::write_sarif;
pub use text::text;
