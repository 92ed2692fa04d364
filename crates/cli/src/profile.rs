//! Profiles: the text of a configuration file in, values for options out, or what is wrong with it and on which line.
//! Needs nothing else of this program but `values`, as its fuzz target is built without the rest.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::ValueEnum;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::values::{self, Detail};

/// Similarity from which a name is taken for another one, misspelt: what clap uses for options.
const ALIKE: f64 = 0.7;

/// Values for options of `run` and `record`; what a profile does not name is `None` or empty.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    pub(crate) detail: Option<Detail>,
    pub(crate) keep: Option<::record::RetentionPolicy>,
    pub(crate) trigger_ns: Option<u64>,
    pub(crate) nic_stamps: bool,
    pub(crate) poll_ms: Option<u64>,
    pub(crate) usdt: Vec<::record::UsdtRequest>,
    pub(crate) output_dir: Option<PathBuf>,
}

/// Takes a key's value into a profile, or says what it should have been.
type Take = fn(&mut Profile, &DeValue<'_>) -> Result<(), String>;

/// Keys of a profile: the names of options.
const KEYS: [(&str, Take); 7] = [
    ("detail", |profile, value| {
        let known = || "one of stats, calls, waits, messages".to_owned();
        let detail = Detail::from_str(text(value)?, false).map_err(|_| known())?;
        profile.detail = Some(detail);
        Ok(())
    }),
    ("keep", |profile, value| {
        let keep = text(value)?.parse::<::record::RetentionPolicy>();
        profile.keep = Some(keep.map_err(|error| error.to_string())?);
        Ok(())
    }),
    ("trigger", |profile, value| {
        profile.trigger_ns = Some(values::latency_ns(text(value)?)?);
        Ok(())
    }),
    ("nic_stamps", |profile, value| {
        profile.nic_stamps = value.as_bool().ok_or("true or false")?;
        Ok(())
    }),
    ("poll_ms", |profile, value| {
        let number = value.as_integer();
        let number = number.and_then(|it| u64::from_str_radix(it.as_str(), it.radix()).ok());
        let ms = number.filter(|ms| *ms > 0).ok_or("a number from 1 on")?;
        profile.poll_ms = Some(ms);
        Ok(())
    }),
    ("usdt", |profile, value| {
        let probes = value.as_array().ok_or("a list of texts")?;
        for probe in probes {
            let probe = text(probe.get_ref())?.parse::<::record::UsdtRequest>();
            profile.usdt.push(probe.map_err(|error| error.to_string())?);
        }
        Ok(())
    }),
    ("output_dir", |profile, value| {
        profile.output_dir = Some(text(value)?.into());
        Ok(())
    }),
];

fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| "a text in quotes".to_owned())
}

/// A configuration file that is in order.
#[derive(Debug)]
pub(crate) struct Config {
    path: PathBuf,
    profiles: BTreeMap<String, Profile>,
}

impl Config {
    /// Takes a file's text in.
    ///
    /// # Errors
    /// When it is no TOML, or has a key or value that is not known; with the line.
    pub(crate) fn parse(path: &Path, source: &str) -> anyhow::Result<Self> {
        let place = Place { path, source };
        let top = DeTable::parse(source).map_err(|error| {
            let message = error.message().to_owned();
            place.wrong(error.span(), &message, "write it as docs/install.md shows")
        })?;
        let mut profiles = BTreeMap::new();
        for (key, value) in top.get_ref() {
            if key.get_ref() != "profile" {
                return Err(place.unknown(key.span(), key.get_ref(), &["profile"]));
            }
            for (name, keys) in place.table(value)? {
                let keys = place.table(keys)?;
                profiles.insert(name.get_ref().to_string(), place.profile(keys)?);
            }
        }
        let path = path.to_owned();
        Ok(Self { path, profiles })
    }

    /// A profile by name.
    pub(crate) fn take(mut self, name: &str) -> anyhow::Result<Profile> {
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

/// A file's text, to name lines of.
#[derive(Clone, Copy)]
struct Place<'p> {
    path: &'p Path,
    source: &'p str,
}

impl Place<'_> {
    fn wrong(self, span: Option<Range<usize>>, what: &str, hint: &str) -> anyhow::Error {
        let start = span.map_or(0, |span| span.start.min(self.source.len()));
        let before = &self.source.as_bytes()[..start];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        anyhow!("{}:{line}: {what}\nhint: {hint}", self.path.display())
    }

    fn unknown(self, span: Range<usize>, key: &str, known: &[&str]) -> anyhow::Error {
        let alike = |name: &&str| strsim::jaro(key, name);
        let nearest = known
            .iter()
            .copied()
            .max_by(|a, b| alike(a).total_cmp(&alike(b)));
        let hint = match nearest.filter(|name| alike(name) > ALIKE) {
            Some(name) => format!("did you mean {name}?"),
            None => format!("known here: {}", known.join(", ")),
        };
        self.wrong(
            Some(span),
            &format!("unknown key {}", key.escape_debug()),
            &hint,
        )
    }

    fn table<'t, 'v>(self, value: &'t Spanned<DeValue<'v>>) -> anyhow::Result<&'t DeTable<'v>> {
        value.get_ref().as_table().ok_or_else(|| {
            let hint = "profiles are tables: [profile.NAME]";
            self.wrong(Some(value.span()), "not a table", hint)
        })
    }

    fn profile(self, keys: &DeTable<'_>) -> anyhow::Result<Profile> {
        let mut profile = Profile::default();
        for (key, value) in keys {
            let name: &str = key.get_ref();
            let Some((_, take)) = KEYS.iter().find(|(known, _)| *known == name) else {
                return Err(self.unknown(key.span(), name, &KEYS.map(|(known, _)| known)));
            };
            take(&mut profile, value.get_ref()).map_err(|wanted| {
                let (why, hint) = wanted.split_once("\nhint: ").unwrap_or((&wanted, ""));
                let hint = if hint.is_empty() {
                    "see docs/install.md"
                } else {
                    hint
                };
                self.wrong(Some(value.span()), &format!("{name}: {why}"), hint)
            })?;
        }
        Ok(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str) -> anyhow::Result<Config> {
        Config::parse(Path::new("c.toml"), source)
    }

    fn refused(source: &str) -> String {
        parse(source).expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_profile_names_options() {
        let config = parse(
            "[profile.deep]\ndetail = \"messages\"\nkeep = \"p99\"\ntrigger = \"latency>1ms\"\n\
             nic_stamps = true\npoll_ms = 250\nusdt = [\"app:*\"]\noutput_dir = \"/r\"\n[profile.none]\n",
        );
        let profile = config.expect("right").take("deep").expect("there");
        assert!(matches!(profile.detail, Some(Detail::Messages)));
        assert!(profile.keep.is_some() && profile.nic_stamps);
        assert_eq!(profile.trigger_ns, Some(1_000_000));
        assert_eq!(profile.poll_ms, Some(250));
        assert_eq!(profile.usdt.len(), 1);
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
                "c.toml:3: unknown key xyz\nhint: known here: detail, keep",
            ),
            (
                "[profile.a]\ndetail = \"all\"\n",
                "c.toml:2: detail: one of stats, calls",
            ),
            (
                "[profile.a]\npoll_ms = 0\n",
                "c.toml:2: poll_ms: a number from 1 on",
            ),
            (
                "[profile.a]\ntrigger = \"1ms\"\n",
                "c.toml:2: trigger: not a condition\nhint: latency>1ms",
            ),
            (
                "[profile.a]\nkeep = 1\n",
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
    fn unknown_profile_error_lists_profiles() {
        let take = |source: &str| parse(source).expect("right").take("c").map(drop);
        let error = take("[profile.a]\n[profile.b]\n").expect_err("no c");
        assert_eq!(
            error.to_string(),
            "c.toml has no profile c\nhint: it has a, b"
        );
    }
}
