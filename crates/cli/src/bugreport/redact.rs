//! Takes out of a report what is nobody else's business. Text is kept only under keys that are known to hold whylat's
//! own words, and there, too, paths, addresses and all names met anywhere are replaced; every other text is replaced
//! as a whole. Numbers stay.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::names::Names;

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
const COMMON_PATHS: [&str; 4] = ["/sys/kernel/", "/proc/sys/", "/proc/self/", "/dev/ptp"];

/// Shorter words are no secrets, but parts of others.
const SHORTEST: usize = 3;

/// What is replaced, and by what.
#[derive(Debug)]
pub(super) struct Redactor {
    names: Names,
    /// Words of whylat's own command line.
    known: HashSet<String>,
}

impl Redactor {
    /// Knows the options of `program`, and the names of this host and its user.
    pub(super) fn new(program: &clap::Command) -> Self {
        let mut known = HashSet::new();
        add_words(program, &mut known);
        let mut redactor = Self {
            names: Names::default(),
            known,
        };
        for host in host_names() {
            redactor.names.of("host", &host);
        }
        for user in user_names() {
            redactor.names.of("user", &user);
        }
        redactor
    }

    /// Gives every text that is replaced as a whole its word, so that it is found within others, too.
    pub(super) fn learn<'v>(&mut self, values: impl Iterator<Item = &'v Value>) {
        for value in values {
            self.replaced(&mut value.clone(), "text");
        }
    }

    /// Redacts a value.
    pub(super) fn value(&mut self, value: &mut Value) {
        self.replaced(value, "text");
        self.scrub(value);
    }

    /// Replaces texts by the key that they are under.
    fn replaced(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::String(text) if !OWN_WORDS.contains(&key) => *text = self.name(key, text),
            Value::Array(items) if key == "arguments" => self.arguments(items),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replaced(item, key)),
            // a USDT probe's name is its program's
            Value::Object(fields) if fields.contains_key("provider") => {
                for field in fields.values_mut() {
                    self.replaced(field, "usdt");
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    let is_map = matches!(key, "kernel_config" | "settings");
                    self.replaced(field, if is_map { key } else { name });
                }
            }
            _ => {}
        }
    }

    fn name(&mut self, key: &str, text: &str) -> String {
        let kind = match key {
            "host" => "host",
            "path" => "path",
            "usdt" => "usdt",
            "boot_id" => "boot",
            _ => "text",
        };
        self.names.of(kind, text)
    }

    /// A command line: whylat's own words stay, up to the command that it ran.
    fn arguments(&mut self, arguments: &mut [Value]) {
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
                for part in text.split(['=', ',', ':']).filter(|part| *part != text) {
                    let kind = match part.parse::<IpAddr>() {
                        Ok(_) => "address",
                        Err(_) => "argument",
                    };
                    if part.len() >= SHORTEST && !self.known.contains(part) {
                        self.names.of(kind, part);
                    }
                }
                *text = match self.known.contains(text.as_str()) {
                    // a word of whylat's own, and so no name to look for elsewhere
                    true => "<argument>".to_owned(),
                    false => self.names.of("argument", text),
                };
            }
            is_own &= text != "--";
        }
    }

    /// Replaces names within texts.
    fn scrub(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.scrubbed(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.scrub(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.scrub(field)),
            _ => {}
        }
    }

    fn scrubbed(&mut self, text: &str) -> String {
        let mut scrubbed = text.to_owned();
        for (secret, name) in self.names.longest_first() {
            if secret.len() >= SHORTEST {
                scrubbed = replace_words(&scrubbed, secret, name);
            }
        }
        let is_end = |letter: char| letter.is_whitespace() || "()[],;'\"`<>".contains(letter);
        let mut done = String::new();
        for piece in scrubbed.split_inclusive(is_end) {
            let word = piece.trim_end_matches(is_end);
            done += &self.word(word);
            done += &piece[word.len()..];
        }
        done
    }

    fn word(&mut self, word: &str) -> String {
        let bare = word.trim_end_matches(['.', ':']);
        let ending = &word[bare.len()..];
        if let Ok(address) = bare.parse::<SocketAddr>() {
            return format!("{}:{}{ending}", self.address(address.ip()), address.port());
        }
        if let Ok(address) = bare.parse::<IpAddr>() {
            return format!("{}{ending}", self.address(address));
        }
        if is_hardware_address(bare) {
            return self.names.of("address", bare) + ending;
        }
        let is_common = COMMON_PATHS.iter().any(|common| bare.starts_with(common));
        if bare.starts_with('/') && bare.len() > 1 && !is_common {
            return self.names.of("path", bare) + ending;
        }
        word.to_owned()
    }

    fn address(&mut self, address: IpAddr) -> String {
        if address.is_loopback() || address.is_unspecified() {
            return address.to_string();
        }
        self.names.of("address", &address.to_string())
    }
}

/// Options, commands and fixed values of a command line.
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

/// The host's name, whole and without its domain, and the domain.
fn host_names() -> Vec<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().to_owned();
    let mut names = vec![host.clone()];
    if let Some((short, domain)) = host.split_once('.') {
        names.extend([short.to_owned(), domain.to_owned()]);
    }
    names.retain(|name| !matches!(name.as_str(), "" | "localhost" | "(none)"));
    names
}

/// Names of who runs this, but for root.
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

/// Replaces `secret` where it is not the inner part of a longer word, whatever its case.
fn replace_words(text: &str, secret: &str, name: &str) -> String {
    let (lower, secret) = (text.to_ascii_lowercase(), secret.to_ascii_lowercase());
    let is_inner = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let mut done = String::new();
    let mut from = 0;
    while let Some(at) = lower[from..].find(&secret).map(|at| from + at) {
        let end = at + secret.len();
        let before = lower[..at].chars().next_back();
        let after = lower[end..].chars().next();
        done += &text[from..at];
        let is_word = !is_inner(before) && !is_inner(after);
        done += if is_word { name } else { &text[at..end] };
        from = end;
    }
    done + &text[from..]
}

fn is_hardware_address(word: &str) -> bool {
    let pairs: Vec<&str> = word.split(':').collect();
    let is_pair =
        |pair: &&str| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    pairs.len() == 6 && pairs.iter().all(is_pair)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn redacted(mut value: Value) -> Value {
        let mut redactor = Redactor::new(&crate::program());
        redactor.learn([&value].into_iter());
        redactor.value(&mut value);
        value
    }

    #[test]
    fn equal_things_stay_equal() {
        let told = redacted(json!([
            {"header": {"host": "canary-host", "detail": "waits", "format": 1}},
            {"coverage": {"probe": "usdt", "why": "no /srv/canary on Canary-Host (10.7.7.7:443), not 10.7.7.7"}},
        ]));
        let header = &told[0]["header"];
        assert_eq!(
            (&header["detail"], &header["format"]),
            (&json!("waits"), &json!(1))
        );
        // not the first one: this host has a name, too
        let host = header["host"].as_str().expect("a word");
        assert!(host.starts_with("<host-"), "{host}");
        let why = format!("no <path-1> on {host} (<address-1>:443), not <address-1>");
        assert_eq!(told[1]["coverage"]["why"], why);
    }

    #[test]
    fn of_command_lines_only_own_words_stay() {
        let told = redacted(json!({"arguments":
            ["/opt/canary/whylat", "run", "--detail", "calls", "-o", "canary.whylat", "--", "./canary", "run", "--key=canary"],
            "why": "cannot start canary"}));
        let kept: Vec<&str> = told["arguments"]
            .as_array()
            .expect("words")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(kept[..5], ["whylat", "run", "--detail", "calls", "-o"]);
        assert_eq!(kept[6], "--");
        // the command's own word `run` is not whylat's
        assert_ne!(kept[8], "run");
        assert!(!told.to_string().contains("canary"), "{told}");
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        let told = redacted(
            json!({"new": "canary", "list": [["canary"]], "usdt": {"provider": "p", "name": "canary", "path": "/x", "places": 2}}),
        );
        assert!(!told.to_string().contains("canary"), "{told}");
        assert_eq!(told["usdt"]["places"], 2);
    }

    #[test]
    fn common_paths_and_own_addresses_are_told() {
        let why = "this kernel has no BTF (/sys/kernel/btf/vmlinux); listens on 127.0.0.1:80";
        assert_eq!(redacted(json!({"why": why}))["why"], why);
        let hardware = redacted(json!({"why": "adapter 02:ab:00:11:22:33: busy"}));
        assert_eq!(hardware["why"], "adapter <address-1>: busy");
    }
}
