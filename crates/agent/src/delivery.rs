//! What people are told of deliveries: that they begin to fail, and that they succeed again. In: how shipping is getting
//! on. Out: a line for the journal, when there is news.

use std::path::Path;

use crate::config::ShipConfig;
use crate::notify::Priority;
use crate::ship::ShipState;

/// Whether the target takes files, as last said.
#[derive(Debug)]
pub(crate) struct Delivery {
    target: String,
    fails: bool,
}

impl Delivery {
    pub(crate) fn new(ship: &ShipConfig) -> Self {
        Self {
            target: ship.target.clone(),
            fails: false,
        }
    }

    /// What is to be said now; a failure is said once, until the target takes a file.
    pub(crate) fn news(&mut self, state: &ShipState) -> Option<(Priority, String)> {
        let fails = state.error.is_some();
        if fails == self.fails {
            return None;
        }
        self.fails = fails;
        let Some(why) = &state.error else {
            return Some((Priority::Info, format!("{} takes files again", self.target)));
        };
        let text = format!(
            "cannot deliver to {}: {why}; what is seen waits in the spool\nhint: {}",
            self.target,
            self.remedy()
        );
        Some((Priority::Warning, text))
    }

    fn remedy(&self) -> &'static str {
        match Path::new(&self.target).is_absolute() {
            true => {
                "the directory must exist, the agent's user must be able to write there, and its unit must allow it \
                 (ReadWritePaths=)"
            }
            false => "look at its address, and at the credentials in the agent's environment",
        }
    }
}

/// What of the configuration holds only if the host is made ready for it: said by a check, which may run elsewhere.
pub fn reservation(ship: &ShipConfig) -> Option<String> {
    let target = Path::new(&ship.target);
    let is_missing = target.is_absolute() && !target.is_dir();
    is_missing.then(|| {
        format!(
            "[ship] target {} is no directory of this host",
            target.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ship::Shipper;

    fn delivery(target: &str) -> Delivery {
        Delivery::new(&ShipConfig {
            target: target.to_owned(),
            ..ShipConfig::default()
        })
    }

    /// Of a shipper over directories that has shipped nothing.
    fn state(error: Option<&str>) -> ShipState {
        let dir = tempfile::tempdir().unwrap();
        let writer = crate::ship::Writer {
            host: "a".to_owned(),
            boot_id: "b".to_owned(),
        };
        let config = ShipConfig {
            target: dir.path().display().to_string(),
            spool: dir.path().join("spool"),
            ..ShipConfig::default()
        };
        let idle = Shipper::start(&writer, &config)
            .unwrap()
            .stop(std::time::Duration::ZERO);
        ShipState {
            error: error.map(str::to_owned),
            ..idle
        }
    }

    #[test]
    fn a_failure_is_said_once_and_its_end() {
        let mut delivery = delivery("/srv/whylat");
        assert_eq!(delivery.news(&state(None)), None);
        let (priority, said) = delivery
            .news(&state(Some("x.parquet: Permission denied")))
            .unwrap();
        assert_eq!(priority, Priority::Warning);
        assert!(
            said.starts_with("cannot deliver to /srv/whylat: x.parquet: Permission denied; "),
            "{said}"
        );
        assert!(said.contains("\nhint: the directory must exist"), "{said}");
        assert_eq!(
            delivery.news(&state(Some("y.parquet: Permission denied"))),
            None
        );
        let again = (Priority::Info, "/srv/whylat takes files again".to_owned());
        assert_eq!(delivery.news(&state(None)), Some(again));
        assert_eq!(delivery.news(&state(None)), None);
    }

    #[test]
    fn the_hint_is_that_of_the_target() {
        let said = delivery("s3://bucket/x")
            .news(&state(Some("denied")))
            .unwrap()
            .1;
        assert!(said.contains("credentials"), "{said}");
    }
}
