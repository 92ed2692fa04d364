//! Profiles: the text of a configuration file in, values for options out, or what is wrong with it and on which line.
//! Needs nothing else of this program but `values`, as its fuzz target is built without the rest.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command, CommandFactory, Parser};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::values::ProfileOptions;

/// Similarity from which a name is taken for another one, misspelt: what clap uses for options.
const ALIKE: f64 = 0.7;

/// Options of `run` and `record` in a profile; those that it does not name are `None` or empty. What a profile may
/// name follows from this definition: the long names of options, with `_` for `-`.
#[derive(Debug, Default, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(crate) struct Profile {
    #[command(flatten)]
    pub(crate) options: ProfileOptions,
    /// Directory of recordings that have no other
    #[arg(long)]
    pub(crate) output_dir: Option<PathBuf>,
}

/// Returns the key of an option.
fn key(option: &Arg) -> String {
    option.get_long().unwrap_or_default().replace('-', "_")
}

/// Returns the arguments that give an option this value; the error says what the value should be.
fn option_arguments(option: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let name = option.get_long().unwrap_or_default();
    let given = |value: &str| format!("--{name}={value}");
    match option.get_action() {
        ArgAction::SetTrue => {
            let is_set = value.as_bool().ok_or("true or false")?;
            Ok(is_set.then(|| format!("--{name}")).into_iter().collect())
        }
        ArgAction::Append => {
            let values = value.as_array().ok_or("a list of texts")?;
            let texts = values.iter().map(|it| text(it.get_ref()).map(given));
            texts.collect()
        }
        _ => match value.as_integer() {
            Some(number) => {
                let number = i128::from_str_radix(number.as_str(), number.radix());
                let number = number.map_err(|_| "a smaller number")?;
                Ok(vec![given(&number.to_string())])
            }
            None => Ok(vec![given(text(value)?)]),
        },
    }
}

/// Returns a value that must be a text.
fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| "a text in quotes".to_owned())
}

/// Returns why an option refuses a value, without its name.
fn refusal_reason(error: &clap::Error) -> String {
    if let Some(ContextValue::Strings(valid)) = error.get(ContextKind::ValidValue) {
        return format!("none of {}", valid.join(", "));
    }
    let why = std::error::Error::source(error).map(ToString::to_string);
    why.unwrap_or_else(|| error.kind().to_string())
}

/// A configuration file that is in order.
#[derive(Debug)]
pub(crate) struct Config {
    path: PathBuf,
    profiles: BTreeMap<String, Profile>,
}

impl Config {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// When it is no TOML, or has keys or values that are not known: all of them, each with its line.
    pub(crate) fn parse(path: &Path, source: &str) -> anyhow::Result<Self> {
        let place = Place { path, source };
        let top = DeTable::parse(source).map_err(|error| {
            let message = error.message().to_owned();
            place.wrong_value_error(error.span(), &message, "write it as docs/install.md shows")
        })?;
        let mut profiles = BTreeMap::new();
        let mut wrong = Wrong::default();
        for (key, value) in top.get_ref() {
            if key.get_ref() != "profile" {
                let error = place.unknown_key_error(key.span(), key.get_ref(), &["profile"]);
                wrong.add(key.span(), error);
                continue;
            }
            let Some(named) = wrong.take(value.span(), place.table(value)) else {
                continue;
            };
            for (name, keys) in named {
                let Some(options) = wrong.take(keys.span(), place.table(keys)) else {
                    continue;
                };
                let profile = place.parse_profile(options, &mut wrong);
                let profile = wrong.take(keys.span(), profile);
                profiles.extend(profile.map(|it| (name.get_ref().to_string(), it)));
            }
        }
        wrong.into_result()?;
        let path = path.to_owned();
        Ok(Self { path, profiles })
    }

    /// Returns the profile with this name.
    pub(crate) fn take_profile(mut self, name: &str) -> anyhow::Result<Profile> {
        self.profiles.remove(name).ok_or_else(|| {
            let names: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
            anyhow!(
                "{} has no profile {name}\nhint: {}",
                self.path.display(),
                match names.is_empty() {
                    true => format!("it has none; begin one with [profile.{name}]"),
                    false => format!("it has {}", names.join(", ").escape_debug()),
                }
            )
        })
    }
}

/// Errors of a file, each with its place.
#[derive(Debug, Default)]
struct Wrong(Vec<(usize, anyhow::Error)>);

impl Wrong {
    /// Adds an error.
    fn add(&mut self, span: Range<usize>, error: anyhow::Error) {
        self.0.push((span.start, error));
    }

    /// Returns what was read, or adds the error.
    fn take<T>(&mut self, span: Range<usize>, read: anyhow::Result<T>) -> Option<T> {
        read.map_err(|error| self.add(span, error)).ok()
    }

    /// Returns an error with all, in the order of the file, if there is any.
    fn into_result(mut self) -> anyhow::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.sort_by_key(|(start, _)| *start);
        let all: Vec<String> = self.0.iter().map(|(_, it)| it.to_string()).collect();
        Err(anyhow!("{}", all.join("\n")))
    }
}

/// A file's text, to name lines of.
#[derive(Clone, Copy)]
struct Place<'p> {
    path: &'p Path,
    source: &'p str,
}

impl Place<'_> {
    /// Makes the error of a value of the wrong kind, with file and line.
    fn wrong_value_error(
        self,
        span: Option<Range<usize>>,
        what: &str,
        hint: &str,
    ) -> anyhow::Error {
        let start = span.map_or(0, |span| span.start.min(self.source.len()));
        let before = &self.source.as_bytes()[..start];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        anyhow!("{}:{line}: {what}\nhint: {hint}", self.path.display())
    }

    /// Makes the error of an unknown key; the hint has the known ones.
    fn unknown_key_error(self, span: Range<usize>, key: &str, known: &[&str]) -> anyhow::Error {
        let alike = |name: &&str| strsim::jaro(key, name);
        let nearest = known
            .iter()
            .copied()
            .max_by(|a, b| alike(a).total_cmp(&alike(b)));
        let hint = match nearest.filter(|name| alike(name) > ALIKE) {
            Some(name) => format!("did you mean {name}?"),
            None => format!("known here: {}", known.join(", ")),
        };
        self.wrong_value_error(
            Some(span),
            &format!("unknown key {}", key.escape_debug()),
            &hint,
        )
    }

    /// Returns a value that must be a table.
    fn table<'t, 'v>(self, value: &'t Spanned<DeValue<'v>>) -> anyhow::Result<&'t DeTable<'v>> {
        value.get_ref().as_table().ok_or_else(|| {
            let hint = "profiles are tables: [profile.NAME]";
            self.wrong_value_error(Some(value.span()), "not a table", hint)
        })
    }

    /// Reads the options of a profile; those that are wrong are added to `wrong`.
    fn parse_profile(self, keys: &DeTable<'_>, wrong: &mut Wrong) -> anyhow::Result<Profile> {
        let command = Profile::command();
        let mut all = Vec::new();
        for (name, value) in keys {
            let given = self.parse_option(&command, name, value);
            all.extend(wrong.take(name.span(), given).into_iter().flatten());
        }
        Ok(Profile::try_parse_from(all)?)
    }

    /// Reads an option by itself, so that an error names its line. Returns its arguments.
    fn parse_option(
        self,
        command: &Command,
        name: &Spanned<Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> anyhow::Result<Vec<String>> {
        let name_span = name.span();
        let name: &str = name.get_ref();
        let Some(option) = command.get_arguments().find(|option| key(option) == name) else {
            let known: Vec<String> = command.get_arguments().map(key).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            return Err(self.unknown_key_error(name_span, name, &known));
        };
        let refused = |wanted: String| {
            let (why, hint) = wanted.split_once("\nhint: ").unwrap_or((&wanted, ""));
            let hint = match hint {
                "" => "see docs/install.md",
                hint => hint,
            };
            self.wrong_value_error(Some(value.span()), &format!("{name}: {why}"), hint)
        };
        let given = option_arguments(option, value.get_ref()).map_err(refused)?;
        Profile::try_parse_from(&given).map_err(|error| refused(refusal_reason(&error)))?;
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::super::values::Detail;
    use super::*;

    /// Reads a configuration.
    fn parse(source: &str) -> anyhow::Result<Config> {
        Config::parse(Path::new("c.toml"), source)
    }

    /// Returns the error of a configuration.
    fn refused(source: &str) -> String {
        parse(source).expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_profile_names_options() {
        let config = parse(
            "[profile.deep]\ndetail = \"messages\"\nkeep = \"p99\"\ntrigger = \"latency>1ms\"\n\
             nic_stamps = true\npoll_ms = 250\nusdt = [\"app:*\"]\noutput_dir = \"/r\"\n[profile.none]\n",
        );
        let profile = config.expect("right").take_profile("deep").expect("there");
        let options = profile.options;
        assert!(matches!(options.detail, Some(Detail::Messages)));
        assert!(options.keep.is_some() && options.nic_stamps);
        assert_eq!(options.trigger, Some(1_000_000));
        assert_eq!(options.poll_ms, Some(250));
        assert_eq!(options.usdt.len(), 1);
        assert_eq!(profile.output_dir.as_deref(), Some(Path::new("/r")));
    }

    #[test]
    fn errors_name_the_line() {
        let known = [
            (
                "[profile.a]\ndetial = \"waits\"\n",
                "c.toml:2: unknown key detial\nhint: did you mean detail?",
            ),
            (
                "[profil.a]\n",
                "c.toml:1: unknown key profil\nhint: did you mean profile?",
            ),
            (
                "[profile.a]\n\nxyz = 1\n",
                "c.toml:3: unknown key xyz\nhint: known here: usdt, detail, follow, budget, keep",
            ),
            (
                "[profile.a]\ndetail = \"all\"\n",
                "c.toml:2: detail: none of stats, calls",
            ),
            (
                "[profile.a]\npoll_ms = 0\n",
                "c.toml:2: poll_ms: 0 is not in 1..",
            ),
            (
                "[profile.a]\ntrigger = \"1ms\"\n",
                "c.toml:2: trigger: not a condition\nhint: latency>1ms",
            ),
            (
                "[profile.a]\nkeep = true\n",
                "c.toml:2: keep: a text in quotes",
            ),
            ("profile = 3\n", "c.toml:1: not a table"),
            ("[profile.a]\n\n\ndetail = \n", "c.toml:4: "),
        ];
        for (source, message) in known {
            let error = refused(source);
            assert!(error.starts_with(message), "{error}");
            assert!(error.contains("\nhint: "), "{error}");
        }
    }

    #[test]
    fn error_names_all_lines_that_are_wrong() {
        let error = refused("[profile.b]\nxyz = 1\nkeep = true\n[profile.a]\npoll_ms = 0\n[c]\n");
        let lines = error.lines().filter(|line| !line.starts_with("hint: "));
        let places: Vec<_> = lines.filter_map(|line| line.get(..8)).collect();
        assert_eq!(places, ["c.toml:2", "c.toml:3", "c.toml:5", "c.toml:6"]);
    }

    #[test]
    fn unknown_profile_error_lists_profiles() {
        let take = |source: &str| parse(source).expect("right").take_profile("c").map(drop);
        let error = take("[profile.a]\n[profile.b]\n").expect_err("no c");
        assert_eq!(
            error.to_string(),
            "c.toml has no profile c\nhint: it has a, b"
        );
    }
}
