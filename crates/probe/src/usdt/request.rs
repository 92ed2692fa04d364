//! The value of option `-u`: which USDT probes to record, as `[PATH:]PROVIDER:NAME[:ARGUMENT,…]`. A shell needs quotes only
//! for the `*`, which means all names of a provider.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::probe::MOST_ARGUMENTS;

/// One `-u` of the command line: the USDT probes that it selects. The command line parses it, and
/// [`find`](super::find::find) searches for its probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The file that has them; `None`: the program, its libraries, what processes have mapped.
    pub path: Option<PathBuf>,
    /// Provider.
    pub provider: String,
    /// Name; `None`: all of the provider.
    pub name: Option<String>,
    /// Names of the arguments, by place; `None` for those that are not wanted. Empty: all are, as
    /// `arg1`, `arg2`, ….
    pub arguments: Vec<Option<String>>,
}

/// Error of a `-u` that names no USDT probe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what}\n\
     hint: PROVIDER:NAME, such as -u app:request, with names for the values of its arguments \
     -u app:request:bytes,latency_ns, or in another file -u /usr/lib/libapp.so:app:request"
)]
pub struct RequestError {
    what: String,
}

/// Makes the error of a request that cannot be read.
fn wrong<T>(what: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError { what: what.into() })
}

impl Request {
    /// Returns whether the user asked for the probe with this provider and name. [`find`](super::find::find) calls it
    /// for each probe of a file.
    pub fn matches(&self, provider: &str, name: &str) -> bool {
        self.provider == provider && self.name.as_deref().is_none_or(|own| own == name)
    }
}

impl FromStr for Request {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let (path, probe) = split_path(text);
        let mut parts = probe.splitn(3, ':');
        let provider = parts.next().unwrap_or_default();
        let Some(name) = parts.next() else {
            return wrong("a USDT probe has a provider and a name");
        };
        if !is_name(provider) || (name != "*" && !is_name(name)) {
            return wrong(format!("{probe:?} does not name a USDT probe"));
        }
        let arguments = match parts.next() {
            Some(_) if name == "*" => return wrong("arguments can be named of one probe only"),
            Some(names) => arguments(names)?,
            None => Vec::new(),
        };
        Ok(Self {
            path: path.map(PathBuf::from),
            provider: provider.to_owned(),
            name: (name != "*").then(|| name.to_owned()),
            arguments,
        })
    }
}

/// Splits a request into its path, which has a slash, and the rest.
fn split_path(text: &str) -> (Option<&str>, &str) {
    let Some(slash) = text.rfind('/') else {
        return (None, text);
    };
    match text[slash..].find(':') {
        Some(colon) => (Some(&text[..slash + colon]), &text[slash + colon + 1..]),
        None => (Some(text), ""),
    }
}

/// Returns whether a text can be a name in a request: it has no colon, comma or white space.
fn is_name(text: &str) -> bool {
    let is_odd = |c: char| c == ':' || c == ',' || c == '*' || c.is_whitespace() || c.is_control();
    !text.is_empty() && !text.contains(is_odd)
}

/// Reads the names of arguments, with commas; an empty name leaves one out.
fn arguments(names: &str) -> Result<Vec<Option<String>>, RequestError> {
    let mut arguments: Vec<Option<String>> = Vec::new();
    for name in names.split(',') {
        if name.is_empty() {
            arguments.push(None);
            continue;
        }
        if !is_name(name) {
            return wrong(format!("{name:?} does not name an argument"));
        }
        if arguments.iter().flatten().any(|known| known == name) {
            return wrong(format!("two arguments are named {name:?}"));
        }
        arguments.push(Some(name.to_owned()));
    }
    if arguments.iter().all(Option::is_none) {
        return wrong("no argument is named");
    }
    if arguments.len() > MOST_ARGUMENTS {
        return wrong(format!(
            "a USDT probe has at most {MOST_ARGUMENTS} arguments"
        ));
    }
    Ok(arguments)
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, name, .. } = self;
        write!(f, "{provider}:{}", name.as_deref().unwrap_or("*"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Request {
        text.parse().unwrap()
    }

    #[test]
    fn path_probe_and_arguments_are_separated() {
        let request = parse("app:request");
        assert_eq!(request.path, None);
        assert_eq!(request.name.as_deref(), Some("request"));
        assert!(request.matches("app", "request") && !request.matches("app", "reply"));
        let request = parse("/opt/a:b/lib.so:app:request:bytes,,latency_ns");
        assert_eq!(request.path, Some("/opt/a:b/lib.so".into()));
        assert_eq!(request.provider, "app");
        let names: Vec<Option<&str>> = request.arguments.iter().map(Option::as_deref).collect();
        assert_eq!(names, [Some("bytes"), None, Some("latency_ns")]);
        let request = parse("./app:whylat:*");
        assert!(request.matches("whylat", "any") && !request.matches("app", "any"));
        assert_eq!(request.to_string(), "whylat:*");
    }

    #[test]
    fn invalid_request_is_explained() {
        let many = format!("a:b:{}x", ",".repeat(MOST_ARGUMENTS));
        let wrong = [
            "", "a", "a:", ":b", "a:b:", "a:b:,", "a:b:x,x", "a:*:x", "./a", "./a:b", "a:b c",
            "a:b:x y", "a:b:c:d", &many,
        ];
        for text in wrong {
            let error = text.parse::<Request>().unwrap_err().to_string();
            assert!(error.contains("hint: PROVIDER:NAME"), "{text}: {error}");
        }
    }
}
