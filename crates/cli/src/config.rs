//! The configuration file: named profiles, each with values for options of `run` and `record`. Nothing of it is used
//! unless `--profile` requests it, and the command line overrides it.
//!
//! Why it exists: a command for recording has up to a dozen options, and who repeats a recording must repeat them all.
//!
//! Under sudo it is that of the user who called sudo, as the recorded command runs as that user.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::json;

use crate::out::{self, OutputArgs};
use crate::profile::{Config, Profile};

/// Below the directory for configuration.
const FILE: &str = "whylat/config.toml";

/// Option that names the configuration file.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// Configuration file [default: whylat/config.toml in $XDG_CONFIG_HOME or ~/.config]
    #[arg(
        long,
        value_name = "FILE",
        env = "WHYLAT_CONFIG",
        hide_env_values = true
    )]
    config: Option<PathBuf>,
}

/// Owner of the file: the user who called sudo, else this one.
struct Owner {
    home: PathBuf,
    /// The file must belong to this user: a link must not make root read another user's file for a sudoer.
    uid: Option<u32>,
}

impl Owner {
    /// Finds the user who owns the configuration: under sudo, the one who called it.
    fn find() -> anyhow::Result<Self> {
        if let Some(user) = ::record::invoking_user()? {
            let uid = Some(user.uid.as_raw());
            return Ok(Self {
                home: user.dir,
                uid,
            });
        }
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let home = home.context(
            "cannot find the configuration file: HOME is not set\nhint: name it with --config",
        )?;
        Ok(Self {
            home: home.into(),
            uid: None,
        })
    }
}

impl ConfigFile {
    /// Returns the named or the default file, and its required owner, if there is one.
    fn find(&self) -> anyhow::Result<(PathBuf, Option<u32>)> {
        if let Some(path) = &self.config {
            return Ok((path.clone(), None));
        }
        let owner = Owner::find()?;
        let set = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        // the specification: a path that is not absolute is ignored
        let dir = set.filter(|dir| dir.is_absolute());
        let dir = dir.unwrap_or_else(|| owner.home.join(".config"));
        Ok((dir.join(FILE), owner.uid))
    }

    /// The path and the text of the file.
    fn read(&self) -> anyhow::Result<(PathBuf, String)> {
        let (path, owner) = self.find()?;
        let text = read(&path, owner)?;
        Ok((path, text))
    }

    /// Returns the profile with this name.
    pub(crate) fn read_profile(&self, name: &str) -> anyhow::Result<Profile> {
        let (path, source) = self.read()?;
        let mut profile = Config::parse(&path, &source)?.take_profile(name)?;
        if let Some(dir) = &mut profile.output_dir
            && let Ok(below) = dir.strip_prefix("~")
        {
            *dir = Owner::find()?.home.join(below);
        }
        eprintln!("profile {name} of {}", out::name(&path));
        Ok(profile)
    }
}

/// The text of a file that must belong to `owner`, if that is known.
fn read(path: &Path, owner: Option<u32>) -> anyhow::Result<String> {
    let shown = out::name(path);
    let mut file = File::open(path).map_err(|error| {
        anyhow!(
            "cannot read the configuration {shown}: {error}\nhint: create it with a section [profile.NAME], or \
                name another file with --config"
        )
    })?;
    if let Some(uid) = owner
        && file.metadata()?.uid() != uid
    {
        bail!(
            "the configuration {shown} does not belong to user id {uid}, who called sudo\n\
             hint: sudo chown {uid} {shown}"
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text)
        .with_context(|| format!("cannot read the configuration {shown}"))?;
    Ok(text)
}

/// Shows the configuration.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat config                       # its path and its profiles
  whylat config --config other.toml   # check another one")]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    file: ConfigFile,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    to: OutputArgs,
}

impl ConfigArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let to = self.to.check()?;
        let (path, source) = self.file.read()?;
        Config::parse(&path, &source)?;
        let profiles = toml::from_str::<BTreeMap<String, BTreeMap<String, toml::Table>>>(&source)
            .with_context(|| format!("cannot read {}", out::name(&path)))?
            .remove("profile")
            .unwrap_or_default();
        if self.json {
            let shown = json!({
                "schema": "whylat.config/1", "file": path.to_string_lossy(), "profiles": profiles,
            });
            to.json(&shown)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut text = format!("{}\n", out::name(&path));
        for (name, keys) in &profiles {
            text += &format!("\n  {name}\n");
            for (key, value) in keys {
                text += &format!("    {key} = {}\n", serde_json::to_string(value)?);
            }
        }
        to.print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
