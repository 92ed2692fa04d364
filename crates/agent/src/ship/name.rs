//! Names of a dataset's files (`docs/fleet/dataset.md`): which rows lie where, and back.

use std::fmt;

use chrono::DateTime;
use table::Table;
use table::fleet::{FleetConnection, FleetCoverage, FleetDetail, FleetInterval, FleetProblem};

/// Nanoseconds of a minute.
pub(crate) const MINUTE_NS: i64 = 60_000_000_000;
/// Nanoseconds of an hour.
pub(crate) const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Ending of every file.
const ENDING: &str = "parquet";

/// The tables in the order in which files of one time are delivered: who sees that a host was watched can see all that
/// was seen of it.
pub(crate) const TABLES: [&str; 5] = [
    FleetProblem::NAME,
    FleetInterval::NAME,
    FleetConnection::NAME,
    FleetDetail::NAME,
    FleetCoverage::NAME,
];

/// Identity of the writer of rows and files: its host and its boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterIdentity {
    /// Name of the host.
    pub host: String,
    /// The kernel's identity of this boot.
    pub boot_id: String,
}

/// The first part of all names that one agent gives: host and boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileStem(String);

impl FileStem {
    /// Makes the stem of file names from host name and boot id.
    pub fn new(host: &str, boot_id: &str) -> Self {
        let plain = |c: char| if is_plain(c) { c } else { '-' };
        let host: String = host.chars().map(plain).collect();
        let digits = boot_id.chars().filter(char::is_ascii_hexdigit);
        let boot: String = digits.take(8).map(|c| c.to_ascii_lowercase()).collect();
        Self(format!("{host}.{boot:0>8}"))
    }

    /// Returns the host's part.
    pub(crate) fn host(&self) -> &str {
        self.0.split('.').next().unwrap_or_default()
    }

    /// Returns the stem of file names; None if host or boot id is not usable.
    fn parse(host: &str, boot: &str) -> Option<Self> {
        let is_boot = boot.len() == 8 && boot.chars().all(|c| c.is_ascii_hexdigit());
        (is_boot && !host.is_empty() && host.chars().all(is_plain))
            .then(|| Self(format!("{host}.{boot}")))
    }
}

impl fmt::Display for FileStem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a character may be in a file name.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// One file of a dataset. Ordered as files are delivered: oldest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// Hours since 1970-01-01 UTC.
    hour: i64,
    /// Minute of the hour; `None`: the whole hour.
    minute: Option<u8>,
    /// Place in [`TABLES`].
    table: u8,
    stem: FileStem,
}

impl FileKey {
    /// Makes the key of the file of a minute; `None` for an unknown table.
    pub(crate) fn from_minute(table: &str, stem: &FileStem, time_ns: i64) -> Option<Self> {
        Some(Self {
            hour: time_ns.div_euclid(HOUR_NS),
            minute: Some((time_ns.rem_euclid(HOUR_NS) / MINUTE_NS) as u8),
            table: TABLES.iter().position(|&name| name == table)? as u8,
            stem: stem.clone(),
        })
    }

    /// Returns the key of the file of this file's hour.
    pub(crate) fn hour_key(&self) -> Self {
        Self {
            minute: None,
            ..self.clone()
        }
    }

    /// Returns whether the file has a whole hour.
    pub(crate) fn is_hour(&self) -> bool {
        self.minute.is_none()
    }

    /// Returns the name of the file's table.
    pub(crate) fn table(&self) -> &'static str {
        TABLES[usize::from(self.table)]
    }

    /// Returns host and boot.
    pub(crate) fn stem(&self) -> &FileStem {
        &self.stem
    }

    /// Returns the start of the file's hour, ns since 1970.
    pub(crate) fn hour_ns(&self) -> i64 {
        self.hour.saturating_mul(HOUR_NS)
    }

    /// Returns the start of the file's data, ns since 1970-01-01 UTC.
    pub(crate) fn begin_ns(&self) -> i64 {
        self.hour_ns() + i64::from(self.minute.unwrap_or(0)) * MINUTE_NS
    }

    /// Returns the file's path below the dataset.
    pub fn path(&self) -> String {
        let (date, hour) = self.date_hour();
        let name = self.name();
        format!("{}/date={date}/hour={hour}/{name}", self.table())
    }

    /// Returns the file's name in the spool, which has no folders.
    pub(crate) fn spool_name(&self) -> String {
        let (date, _) = self.date_hour();
        format!("{date}.{}.{}", self.table(), self.name())
    }

    /// Returns the file of a name in the spool; `None` for any other name.
    pub(crate) fn parse(spool_name: &str) -> Option<Self> {
        let parts: Vec<&str> = spool_name.split('.').collect();
        let &[date, table, host, boot, time, ENDING] = parts.as_slice() else {
            return None;
        };
        let minute = time.get(2..).filter(|minute| !minute.is_empty());
        let clock = format!("{}:{}", time.get(..2)?, minute.unwrap_or("00"));
        let begin = DateTime::parse_from_rfc3339(&format!("{date}T{clock}:00Z")).ok()?;
        let key = Self::from_minute(
            table,
            &FileStem::parse(host, boot)?,
            begin.timestamp_nanos_opt()?,
        )?;
        let key = if minute.is_none() {
            key.hour_key()
        } else {
            key
        };
        (key.spool_name() == spool_name).then_some(key)
    }

    /// Returns the file's name.
    fn name(&self) -> String {
        let (_, hour) = self.date_hour();
        let minute = self.minute.map(|minute| format!("{minute:02}"));
        let minute = minute.unwrap_or_default();
        format!("{}.{hour}{minute}.{ENDING}", self.stem)
    }

    /// Returns date and hour of the file, in UTC.
    fn date_hour(&self) -> (String, String) {
        let begin = DateTime::from_timestamp_nanos(self.hour_ns());
        (
            begin.format("%Y-%m-%d").to_string(),
            begin.format("%H").to_string(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-24 05:12 UTC.
    const TIME_NS: i64 = 1_795_497_120_000_000_000;

    #[test]
    fn names_are_those_of_the_documentation() {
        let stem = FileStem::new("web 1.example", "0A1B2C3D-0000-4000-8000-000000000000");
        let key = FileKey::from_minute("fleet_problems", &stem, TIME_NS + 59_999_999_999);
        let key = key.expect("a table");
        let folder = "fleet_problems/date=2026-11-24/hour=05";
        assert_eq!(
            key.path(),
            format!("{folder}/web-1-example.0a1b2c3d.0512.parquet")
        );
        assert_eq!(
            key.hour_key().path(),
            format!("{folder}/web-1-example.0a1b2c3d.05.parquet")
        );
        assert_eq!(FileKey::from_minute("calls", &stem, TIME_NS), None);
    }

    #[test]
    fn coverage_is_delivered_last() {
        let stem = FileStem::new("h", "00000000");
        let key = |table, time_ns| FileKey::from_minute(table, &stem, time_ns).expect("a table");
        let mut keys = [
            key("fleet_problems", TIME_NS + MINUTE_NS),
            key("fleet_coverage", TIME_NS),
            key("fleet_details", TIME_NS),
            key("fleet_problems", TIME_NS),
        ];
        keys.sort();
        let order: Vec<_> = keys
            .iter()
            .map(|key| (key.begin_ns(), key.table()))
            .collect();
        assert_eq!(
            order,
            [
                (TIME_NS, "fleet_problems"),
                (TIME_NS, "fleet_details"),
                (TIME_NS, "fleet_coverage"),
                (TIME_NS + MINUTE_NS, "fleet_problems"),
            ]
        );
    }

    proptest! {
        #[test]
        fn a_name_in_the_spool_is_its_file(
            table in 0..TABLES.len(),
            host in "[A-Za-z0-9_-]{1,20}",
            boot in "[0-9a-f]{8}",
            time_ns in 0..i64::MAX,
            hour in any::<bool>(),
        ) {
            let key = FileKey::from_minute(TABLES[table], &FileStem::new(&host, &boot), time_ns).expect("a table");
            let key = if hour { key.hour_key() } else { key };
            prop_assert_eq!(FileKey::parse(&key.spool_name()), Some(key));
        }

        #[test]
        fn foreign_names_are_no_keys(name in "\\PC{0,60}") {
            prop_assert_eq!(FileKey::parse(&name), None);
        }
    }
}
