//! The root folder: the only place that is read.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, anyhow, bail};

use crate::{load, out};

/// Folders within a recording: its tables.
const LEVELS_OF_RECORDING: usize = 2;

/// Holds the folder below which recordings are read. It is the current folder of this process, so that messages name paths
/// from there.
#[derive(Debug)]
pub(super) struct RootFolder {
    /// As the user gave it, but absolute.
    given: PathBuf,
    /// Without links.
    real: PathBuf,
}

impl RootFolder {
    /// Makes a folder the current one of this process.
    ///
    /// # Errors
    /// When there is no such folder.
    pub(super) fn enter(path: &Path) -> anyhow::Result<Self> {
        let enter = || -> std::io::Result<Self> {
            let (given, real) = (std::path::absolute(path)?, path.canonicalize()?);
            std::env::set_current_dir(&real)?;
            Ok(Self { given, real })
        };
        enter().map_err(|why| {
            anyhow!(
                "cannot use {} as the root folder: {why}\n\
                 hint: give the folder with the recordings: --root DIR",
                out::name(path)
            )
        })
    }

    /// Returns the path of a recording, from the root; the newest one if none is given.
    ///
    /// # Errors
    /// When it is not there, or not below the root: by its name, or by a link.
    pub(super) fn recording_path(&self, given: Option<&str>) -> anyhow::Result<PathBuf> {
        let newest = given
            .is_none()
            .then(load::find_newest_recording)
            .transpose()?;
        let asked = newest.as_deref().unwrap_or(Path::new(given.unwrap_or(".")));
        let below = self
            .path_below_root(asked)
            .ok_or_else(|| self.outside_error(asked))?;
        let real = below.canonicalize().map_err(|why| match why.kind() {
            ErrorKind::NotFound => anyhow!(
                "there is no {} below {}\n\
                 hint: the tool `recordings` lists what is there",
                out::name(asked),
                out::name(&self.given)
            ),
            _ => anyhow!("cannot read {}: {why}", out::name(asked)),
        })?;
        if !real.starts_with(&self.real) {
            return Err(self.outside_error(asked));
        }
        self.check_links(&real, LEVELS_OF_RECORDING)?;
        Ok(below)
    }

    /// Returns a path from the root; `None`: its name leads out.
    fn path_below_root(&self, asked: &Path) -> Option<PathBuf> {
        let relative = match asked.is_absolute() {
            true => [&self.given, &self.real]
                .into_iter()
                .find_map(|root| asked.strip_prefix(root).ok())?,
            false => asked,
        };
        let is_plain =
            |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        relative
            .components()
            .all(is_plain)
            .then(|| match relative.as_os_str().is_empty() {
                true => PathBuf::from("."),
                false => relative.components().collect(),
            })
    }

    /// Refuses links within a recording that lead out of the root.
    fn check_links(&self, folder: &Path, levels: usize) -> anyhow::Result<()> {
        let Ok(entries) = fs::read_dir(folder) else {
            return Ok(());
        };
        for entry in entries.flatten() {
            let kind = entry
                .file_type()
                .context("cannot read the kind of a file")?;
            let path = entry.path();
            if kind.is_symlink() {
                let is_below = |real: PathBuf| real.starts_with(&self.real);
                if path.canonicalize().is_ok_and(|real| !is_below(real)) {
                    bail!("{}", self.outside_error(&path));
                }
            } else if kind.is_dir() && levels > 1 {
                self.check_links(&path, levels - 1)?;
            }
        }
        Ok(())
    }

    /// Makes the error of a path outside the folder.
    fn outside_error(&self, asked: &Path) -> anyhow::Error {
        anyhow!(
            "{} is outside of the root folder {}\n\
             hint: name a recording below it; the tool `recordings` lists them",
            out::name(asked),
            out::name(&self.given)
        )
    }
}
