//! A TOML file → a configuration that is checked.

use std::path::Path;

use super::error::InvalidValue;
use super::{Config, ConfigError, check};
use crate::apps::ApplicationRules;

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// When it cannot be read, is no TOML, has a key that is not known or a value that cannot be meant: with the line
    /// and what to do.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &text)
    }

    /// Reads a configuration from text; `path` is for errors.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let config: Self =
            toml::from_str(text).map_err(|error| ConfigError::from_toml(path, text, &error))?;
        match check::first_fault(&config) {
            Some(fault) => Err(fault.at(path, text)),
            None => Ok(config),
        }
    }

    /// Checks that intervals have a receiver: files are written, or `has_export`, as a collector is named here or in
    /// the environment. `path` is the file of this configuration.
    ///
    /// # Errors
    /// When there is neither.
    pub fn check_receivers(&self, path: &Path, has_export: bool) -> Result<(), ConfigError> {
        if self.ship.is_wanted() || has_export {
            return Ok(());
        }
        Err(ConfigError::NoReceiver {
            path: path.to_owned(),
        })
    }

    /// Returns the rules that name applications.
    ///
    /// # Errors
    /// When a pattern is none; [`Config::read`] has seen to that.
    pub fn rules(&self) -> Result<ApplicationRules, ConfigError> {
        ApplicationRules::new(&self.applications)
            .map_err(|error| InvalidValue::from(error).at(Path::new("agent.toml"), ""))
    }

    /// Returns which setting differs that a running agent cannot change; `None`: no restart is
    /// needed.
    pub fn needs_restart(&self, other: &Self) -> Option<&'static str> {
        if self.host != other.host {
            Some("[host] name")
        } else if self.watch.detail != other.watch.detail {
            Some("[watch] detail")
        } else if self.watch.netns != other.watch.netns {
            Some("[watch] netns")
        } else if self.watch.interval_s != other.watch.interval_s {
            Some("[watch] interval_s")
        } else if self.ship != other.ship {
            Some("[ship]")
        } else if self.metrics != other.metrics {
            Some("[metrics]")
        } else if self.health != other.health {
            Some("[health]")
        } else if self.otlp != other.otlp {
            Some("[otlp]")
        } else {
            None
        }
    }
}
