//! Requests and files → probes to attach, or which probes there are instead.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::error::UsdtError;
use super::files::{Binary, Files};
use super::notes::{Elf, Note};
use super::probe::{Argument, MARKERS, MOST_ARGUMENTS, Marker, Meaning, Probe};
use super::request::Request;

/// Names that a hint lists.
const MOST_NAMED: usize = 40;

/// Files that were read, and the probes found.
struct Search<'a> {
    files: &'a Files,
    /// By path.
    read: BTreeMap<PathBuf, Result<Vec<Note>, String>>,
    /// With device and inode of their files.
    probes: Vec<(Option<(u64, u64)>, Probe)>,
}

/// Finds the probes that are asked for in the files that the requests name, and else in `files`.
///
/// # Errors
/// When a request means no probe, or not so many arguments as it names.
pub fn find(requests: &[Request], files: &Files) -> Result<Vec<Probe>, UsdtError> {
    let mut search = Search {
        files,
        read: BTreeMap::new(),
        probes: Vec::new(),
    };
    for request in requests {
        search.add(request)?;
    }
    Ok(search.probes.into_iter().map(|(_, probe)| probe).collect())
}

impl Search<'_> {
    /// Adds the probes of a request; an error if no file has one.
    fn add(&mut self, request: &Request) -> Result<(), UsdtError> {
        let candidates = match &request.path {
            Some(path) => vec![Binary::at(path)],
            None => self.files.files.clone(),
        };
        if candidates.is_empty() {
            return Err(UsdtError::NoFile {
                probe: request.to_string(),
            });
        }
        let mut any = false;
        for file in &candidates {
            for (name, notes) in self.notes_of(request, file)? {
                any = true;
                self.add_probe(request, file, name, &notes)?;
            }
        }
        match any {
            true => Ok(()),
            false => Err(self.not_found(request, &candidates)),
        }
    }

    /// Returns the notes of a file that a request means, by name.
    fn notes_of(
        &mut self,
        request: &Request,
        file: &Binary,
    ) -> Result<BTreeMap<String, Vec<Note>>, UsdtError> {
        let mut by_name: BTreeMap<String, Vec<Note>> = BTreeMap::new();
        match (self.read(file), &request.path) {
            (Ok(notes), _) => {
                let wanted = notes
                    .iter()
                    .filter(|note| request.matches(&note.provider, &note.name));
                for note in wanted {
                    let of_name = by_name.entry(note.name.clone()).or_default();
                    of_name.push(note.clone());
                }
            }
            (Err(why), Some(path)) => {
                return Err(UsdtError::Unreadable {
                    path: path.clone(),
                    why: why.clone(),
                });
            }
            (Err(_), None) => {}
        }
        Ok(by_name)
    }

    /// Returns the notes of a file; reads each file once.
    fn read(&mut self, file: &Binary) -> &Result<Vec<Note>, String> {
        let read = || Elf::read(&file.opened).map(|elf| elf.notes);
        self.read.entry(file.opened.clone()).or_insert_with(read)
    }

    /// Adds one probe; a file that is there under two names counts once.
    fn add_probe(
        &mut self,
        request: &Request,
        file: &Binary,
        name: String,
        notes: &[Note],
    ) -> Result<(), UsdtError> {
        let probe = probe_of(request, file, name, notes)?;
        let identity = file.identity();
        let is_known = self.probes.iter().any(|(other, known)| {
            let is_same_file = *other == identity && other.is_some();
            is_same_file && (&known.provider, &known.name) == (&probe.provider, &probe.name)
        });
        match is_known {
            true if !request.arguments.is_empty() => Err(UsdtError::Twice {
                probe: probe.to_string(),
                path: probe.path,
            }),
            true => Ok(()),
            false => {
                self.probes.push((identity, probe));
                Ok(())
            }
        }
    }

    /// Makes the error of a probe that no file has; the hint names other probes.
    fn not_found(&self, request: &Request, searched: &[Binary]) -> UsdtError {
        let notes = searched.iter().filter_map(|file| {
            let notes = self.read.get(&file.opened)?.as_ref().ok()?;
            Some(notes.iter())
        });
        let names: BTreeSet<String> = notes
            .flatten()
            .map(|note| format!("{}:{}", note.provider, note.name))
            .collect();
        UsdtError::NotFound {
            probe: request.to_string(),
            searched: self.describe(request, searched),
            hint: hint(request, &names),
        }
    }

    /// Returns which files were searched for the probe.
    fn describe(&self, request: &Request, searched: &[Binary]) -> String {
        let first = searched
            .first()
            .map(|file| file.shown.display().to_string());
        let mut text = first.unwrap_or_default();
        if let (Some(script), None) = (&self.files.script, &request.path) {
            text += &format!(", which runs the script {},", script.display());
        }
        match searched.len() {
            0 | 1 => {}
            2 => text += " or the library loaded with it",
            many => text += &format!(" or the {} libraries loaded with it", many - 1),
        }
        let gaps = self.list_gaps(request, searched);
        if !gaps.is_empty() {
            text += &format!(" (not searched: {})", gaps.join("; "));
        }
        text
    }

    /// Returns which files could not be searched, and why.
    fn list_gaps(&self, request: &Request, searched: &[Binary]) -> Vec<String> {
        let mut gaps = Vec::new();
        if request.path.is_none() {
            gaps.extend(self.files.gaps.iter().cloned());
        }
        for file in searched {
            if let Some(Err(why)) = self.read.get(&file.opened) {
                gaps.push(format!("{}: {why}", file.shown.display()));
            }
        }
        gaps
    }
}

/// Returns the hint: probes with other names, or that the file has none.
fn hint(request: &Request, names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return format!(
            "no USDT probe is there at all; if another file has it, name it: \
             -u /path/of/file:{request}"
        );
    }
    let named: Vec<&str> = names.iter().take(MOST_NAMED).map(String::as_str).collect();
    let mut text = format!("there are {}", named.join(", "));
    if names.len() > MOST_NAMED {
        text += &format!(", and {} more: readelf -n FILE", names.len() - MOST_NAMED);
    }
    text
}

/// Makes a probe with all of its places in a file.
fn probe_of(
    request: &Request,
    file: &Binary,
    name: String,
    notes: &[Note],
) -> Result<Probe, UsdtError> {
    let arguments: BTreeSet<&str> = notes.iter().map(|note| note.arguments.as_str()).collect();
    let arguments = arguments.into_iter().collect::<Vec<&str>>().join(" | ");
    let mut probe = Probe {
        provider: request.provider.clone(),
        name,
        path: file.shown.clone(),
        opened: file.opened.clone(),
        places: notes.len(),
        arguments,
        meaning: Meaning::Marker,
    };
    if probe.provider == MARKERS && notes.iter().all(is_marker) {
        return match request.arguments.is_empty() {
            true => Ok(probe),
            false => Err(UsdtError::Marker {
                probe: probe.to_string(),
            }),
        };
    }
    let count = notes.iter().map(|note| note.places().count()).min();
    let count = count.unwrap_or(0).min(MOST_ARGUMENTS);
    let wanted = match request.arguments.is_empty() {
        true => (1..=count)
            .map(|number| Some(format!("arg{number}")))
            .collect(),
        false => request.arguments.clone(),
    };
    if wanted.len() > count {
        return Err(UsdtError::TooFewArguments {
            probe: probe.to_string(),
            path: probe.path,
            count,
            arguments: probe.arguments,
            named: wanted.len(),
        });
    }
    probe.meaning = Meaning::new(&probe.name, wanted, notes);
    Ok(probe)
}

/// Returns whether the note is a marker of whylat's own header.
fn is_marker(note: &Note) -> bool {
    note.places().count() == 2 && note.constant(0).and_then(Marker::from_kind).is_some()
}

impl Meaning {
    /// Returns the meaning of firings: values of the named arguments, or a moment if none has a name.
    fn new(probe: &str, wanted: Vec<Option<String>>, notes: &[Note]) -> Self {
        let is_signed = |index| notes.iter().any(|note| note.is_signed(index) == Some(true));
        let wanted = wanted.into_iter().enumerate();
        let arguments: Vec<Argument> = wanted
            .filter_map(|(index, name)| {
                Some(Argument {
                    index,
                    name: format!("{probe}.{}", name?),
                    is_signed: is_signed(index),
                })
            })
            .collect();
        match arguments.is_empty() {
            true => Self::Moment,
            false => Self::Values(arguments),
        }
    }
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
