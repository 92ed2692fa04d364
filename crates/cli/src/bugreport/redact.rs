//! Takes out of a report what is nobody else's business. Text is kept only under keys that are known to hold whylat's
//! own words, and there, too, paths, addresses and all known names are replaced; every other text is replaced
//! as a whole. Numbers stay.

use std::collections::HashSet;

use serde_json::Value;

use super::addresses::{self, Address};
use super::names::PlaceholderTable;

/// Keys of texts that whylat makes up itself, or the kernel.
const OWN_WORDS: [&str; 29] = [
    "architecture",
    "blake3",
    "clocksource",
    "code",
    "detail",
    "distribution",
    "file",
    "held",
    "kernel",
    "kernel_config",
    "lacks",
    "lockdown",
    "missing",
    "name",
    "names",
    "need",
    "privileges",
    "probe",
    "remedy",
    "schema",
    "settings",
    "state",
    "table",
    "title",
    "uname",
    "what",
    "which",
    "whylat",
    "why",
];

/// Paths that are the same on every host.
const COMMON_PATHS: [&str; 5] = [
    "/sys/kernel/",
    "/proc/sys/",
    "/proc/self/",
    "/proc/kallsyms",
    "/dev/ptp",
];

/// Parents of users' directories.
const HOMES: &str = "/home/";

/// Shorter words are no secrets, but parts of others.
const SHORTEST: usize = 3;

/// Secrets of the host and their placeholders.
#[derive(Debug)]
pub(super) struct Redactor {
    names: PlaceholderTable,
    /// Words of whylat's own command line.
    known: HashSet<String>,
}

impl Redactor {
    /// Makes a redactor that knows the options of `program`, the host and its user.
    pub(super) fn new(program: &clap::Command) -> Self {
        let mut known = HashSet::new();
        add_words(program, &mut known);
        let mut redactor = Self {
            names: PlaceholderTable::default(),
            known,
        };
        for host in host_names() {
            redactor.names.placeholder("host", &host);
        }
        for user in user_names() {
            redactor.names.placeholder("user", &user);
        }
        redactor
    }

    /// Gives a placeholder to every text that is replaced as a whole, to find it within others.
    pub(super) fn learn_secrets<'v>(&mut self, values: impl Iterator<Item = &'v Value>) {
        for value in values {
            self.learn_users(value);
            self.replace_value(&mut value.clone(), "text");
        }
    }

    /// Learns the names of users from their directories.
    fn learn_users(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                for (at, _) in text.match_indices(HOMES) {
                    let user = user_in(&text[at + HOMES.len()..]);
                    if !user.is_empty() && !self.known.contains(user) {
                        self.names.placeholder("user", user);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn_users(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.learn_users(field)),
            _ => {}
        }
    }

    /// Redacts a value.
    pub(super) fn value(&mut self, value: &mut Value) {
        self.replace_value(value, "text");
        self.redact_texts(value);
    }

    /// Replaces texts by the key that they are under.
    fn replace_value(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::String(text) if !OWN_WORDS.contains(&key) => *text = self.name(key, text),
            Value::Array(items) if key == "arguments" => self.redact_arguments(items),
            Value::Array(items) => items
                .iter_mut()
                .for_each(|item| self.replace_value(item, key)),
            // a USDT probe's name is its program's
            Value::Object(fields) if fields.contains_key("provider") => {
                for field in fields.values_mut() {
                    self.replace_value(field, "usdt");
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    let is_map = matches!(key, "kernel_config" | "settings");
                    self.replace_value(field, if is_map { key } else { name });
                }
            }
            _ => {}
        }
    }

    /// Returns the replacement of a name; the same name gets the same one.
    fn name(&mut self, key: &str, text: &str) -> String {
        let kind = match key {
            "host" => "host",
            "path" => "path",
            "usdt" => "usdt",
            "boot_id" => "boot",
            _ => "text",
        };
        let name = self.names.placeholder(kind, text);
        if kind == "host" {
            for part in parts_of_host(text) {
                self.names.placeholder(kind, part);
            }
        }
        name
    }

    /// Redacts a command line: whylat's own words stay, up to the command that it ran.
    fn redact_arguments(&mut self, arguments: &mut [Value]) {
        let mut is_own = true;
        for (number, argument) in arguments.iter_mut().enumerate() {
            let Value::String(text) = argument else {
                continue;
            };
            if number == 0 {
                "whylat".clone_into(text);
                continue;
            }
            if !(is_own && self.known.contains(text.as_str())) {
                // addresses are found wherever they are
                let pieces = addresses::texts_between_addresses(text).into_iter();
                let parts = pieces.flat_map(|piece| piece.split(['=', ',', ':', '@']));
                for part in parts.filter(|part| *part != text) {
                    if part.len() >= SHORTEST && !self.known.contains(part) {
                        self.names.placeholder("argument", part);
                    }
                }
                *text = match self.known.contains(text.as_str()) {
                    // a word of whylat's own, and so no name to look for elsewhere
                    true => "<argument>".to_owned(),
                    false => self.names.placeholder("argument", text),
                };
            }
            is_own &= text != "--";
        }
    }

    /// Replaces names within texts.
    fn redact_texts(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.scrub_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_texts(item)),
            Value::Object(fields) => fields
                .values_mut()
                .for_each(|field| self.redact_texts(field)),
            _ => {}
        }
    }

    /// Replaces names, addresses and paths in a text.
    fn scrub_text(&mut self, text: &str) -> String {
        let named = self.without_names(text);
        let scrubbed = self.without_addresses(&named);
        let is_end = |letter: char| letter.is_whitespace() || "()[],;'\"`<>".contains(letter);
        let mut done = String::new();
        for piece in scrubbed.split_inclusive(is_end) {
            let word = piece.trim_end_matches(is_end);
            done += &self.redact_word(word);
            done += &piece[word.len()..];
        }
        done
    }

    /// Replaces the names that were learned.
    fn without_names(&self, text: &str) -> String {
        let mut scrubbed = text.to_owned();
        let mut addresses = addresses::find(text);
        for (secret, name) in self.names.longest_first() {
            if secret.len() >= SHORTEST {
                let replaced = replace_words(&scrubbed, secret, name, &addresses);
                if replaced != scrubbed {
                    addresses = addresses::find(&replaced);
                    scrubbed = replaced;
                }
            }
        }
        scrubbed
    }

    /// Replaces addresses, but for common ones.
    fn without_addresses(&mut self, text: &str) -> String {
        let mut done = String::new();
        let mut from = 0;
        for address in addresses::find(text) {
            done += &text[from..address.place.start];
            done += &match address.is_common {
                true => address.text,
                false => self.names.placeholder("address", &address.text),
            };
            from = address.place.end;
        }
        done + &text[from..]
    }

    /// Replaces a path from its start: `file=/srv/x`, `http://host/x`.
    fn redact_word(&mut self, word: &str) -> String {
        let bare = word.trim_end_matches(['.', ':']);
        let ending = &word[bare.len()..];
        let Some(begin) = path_begin(bare) else {
            return word.to_owned();
        };
        let (before, path) = bare.split_at(begin);
        if path.len() < 2 || is_common_path(path) || is_prefix_length(bare) {
            return word.to_owned();
        }
        format!("{before}{}{ending}", self.names.placeholder("path", path))
    }
}

/// Adds options, commands and fixed values of a command line to the words that stay.
fn add_words(command: &clap::Command, words: &mut HashSet<String>) {
    words.insert(command.get_name().to_owned());
    words.insert("--".to_owned());
    for argument in command.get_arguments() {
        words.extend(argument.get_long().map(|long| format!("--{long}")));
        words.extend(argument.get_short().map(|short| format!("-{short}")));
        let values = argument.get_possible_values();
        words.extend(values.iter().map(|value| value.get_name().to_owned()));
    }
    for below in command.get_subcommands() {
        add_words(below, words);
    }
}

/// Returns the host's name, whole and without its domain, and the domain.
fn host_names() -> Vec<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().to_owned();
    let mut names = vec![host.clone()];
    names.extend(parts_of_host(&host).map(str::to_owned));
    names.retain(|name| !matches!(name.as_str(), "" | "localhost" | "(none)"));
    names
}

/// Returns the host's name without its domain, and the domain.
fn parts_of_host(host: &str) -> impl Iterator<Item = &str> {
    let parts = host
        .split_once('.')
        .filter(|_| addresses::find(host).is_empty());
    parts
        .into_iter()
        .flat_map(|(short, domain)| [short, domain])
}

/// Returns the names of the user who runs the program, but not root.
fn user_names() -> Vec<String> {
    let variables = ["USER", "LOGNAME", "SUDO_USER"];
    let mut names: Vec<String> = variables
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .collect();
    let user = nix::unistd::User::from_uid(nix::unistd::getuid());
    names.extend(user.ok().flatten().map(|user| user.name));
    names.retain(|name| !matches!(name.as_str(), "" | "root"));
    names
}

/// Returns the user of a path below [`HOMES`].
fn user_in(path: &str) -> &str {
    let is_end = |letter: char| !letter.is_alphanumeric() && !"._-".contains(letter);
    let user = path.split(is_end).next().unwrap_or_default();
    user.trim_end_matches('.')
}

/// Replaces `secret` where it is not the inner part of a longer word, or of an address, whatever its case.
fn replace_words(text: &str, secret: &str, name: &str, addresses: &[Address]) -> String {
    let (lower, secret) = (text.to_ascii_lowercase(), secret.to_ascii_lowercase());
    let is_inner = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let breaks = |at: usize| {
        let mut places = addresses.iter().map(|address| &address.place);
        places.any(|place| place.start < at && at < place.end)
    };
    let mut done = String::new();
    let mut from = 0;
    while let Some(at) = lower[from..].find(&secret).map(|at| from + at) {
        let end = at + secret.len();
        let before = lower[..at].chars().next_back();
        let after = lower[end..].chars().next();
        done += &text[from..at];
        let is_word = !is_inner(before) && !is_inner(after) && !breaks(at) && !breaks(end);
        done += if is_word { name } else { &text[at..end] };
        from = end;
    }
    done + &text[from..]
}

/// Returns where a path begins in a word, or what follows the scheme of a URL. A slash within a word, as in `and/or`,
/// begins none.
fn path_begin(word: &str) -> Option<usize> {
    if word.starts_with(['.', '~']) && word.contains('/') {
        return Some(0);
    }
    let is_begin = |at: &usize| {
        let before = &word[..*at];
        let is_inner = |letter: char| letter.is_alphanumeric() || "._-~".contains(letter);
        // of an address that was replaced: `<address-1>:80/x`
        let port = before.strip_prefix(':');
        let is_port = port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        !before.ends_with(is_inner) || is_port || word[*at..].starts_with(HOMES)
    };
    let begin = word.match_indices('/').map(|(at, _)| at).find(is_begin)?;
    let is_url = word[..begin].ends_with(':') && word[begin..].starts_with("//");
    Some(if is_url { begin + 2 } else { begin })
}

/// Returns whether a path is the same on all hosts.
fn is_common_path(path: &str) -> bool {
    COMMON_PATHS.iter().any(|common| path.starts_with(common)) && !path.contains("/..")
}

/// Returns the prefix length after the address of a network: `/24`.
fn is_prefix_length(word: &str) -> bool {
    let length = word.strip_prefix('/');
    length.is_some_and(|length| length.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
