//! Messages about deliveries: that they begin to fail, that they succeed again, and that the spool's disk fails.
//! In: how shipping is getting on. Out: lines for the journal, when there is news.

use std::path::Path;

use crate::config::ShipConfig;
use crate::notify::LogPriority;
use crate::ship::ShipState;

/// Messages about shipping that were printed last, so that only a change is printed again.
#[derive(Debug)]
pub(crate) struct Delivery {
    target: String,
    fails: bool,
    spool_failure: Option<String>,
}

impl Delivery {
    /// Begins to watch the delivery to this target.
    pub(crate) fn new(ship: &ShipConfig) -> Self {
        Self {
            target: ship.target.clone(),
            fails: false,
            spool_failure: None,
        }
    }

    /// Returns the messages to be printed now.
    pub(crate) fn news(&mut self, state: &ShipState) -> Vec<(LogPriority, String)> {
        let news = [self.news_of_target(state), self.news_of_spool(state)];
        news.into_iter().flatten().collect()
    }

    /// Returns a message when the spool begins to fail, or fails in another way; else `None`.
    fn news_of_spool(&mut self, state: &ShipState) -> Option<(LogPriority, String)> {
        if state.spool_failure == self.spool_failure {
            return None;
        }
        self.spool_failure.clone_from(&state.spool_failure);
        let why = state.spool_failure.as_ref()?;
        let hint = "free space on its disk, or find why it fails; fleet_coverage counts lost data";
        Some((LogPriority::Warning, format!("{why}\nhint: {hint}")))
    }

    /// Returns a message when the target begins to fail, and when it takes files again.
    fn news_of_target(&mut self, state: &ShipState) -> Option<(LogPriority, String)> {
        let fails = state.error.is_some();
        if fails == self.fails {
            return None;
        }
        self.fails = fails;
        let Some(why) = &state.error else {
            return Some((
                LogPriority::Info,
                format!("{} takes files again", self.target),
            ));
        };
        let text = format!(
            "cannot deliver to {}: {why}; new data waits in the spool\nhint: {}",
            self.target,
            self.remedy()
        );
        Some((LogPriority::Warning, text))
    }

    /// Returns what helps if files cannot be written to the target.
    fn remedy(&self) -> &'static str {
        match Path::new(&self.target).is_absolute() {
            true => {
                "the directory must exist, the agent's user must be able to write there, and its unit must allow it \
                 (ReadWritePaths=)"
            }
            false => "check its address, and the credentials in the agent's environment",
        }
    }
}

/// Returns the warning that this host does not have the target. It may exist on the host of the
/// agent.
pub fn reservation(ship: &ShipConfig) -> Option<String> {
    let target = Path::new(&ship.target);
    let is_missing = target.is_absolute() && !target.is_dir();
    is_missing.then(|| {
        format!(
            "[ship] target {} is not a directory of this host",
            target.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Watches the delivery to a target.
    fn delivery(target: &str) -> Delivery {
        Delivery::new(&ShipConfig {
            target: target.to_owned(),
            ..ShipConfig::default()
        })
    }

    /// Makes a state with this error.
    fn state(error: Option<&str>) -> ShipState {
        ShipState {
            error: error.map(str::to_owned),
            ..ShipState::default()
        }
    }

    #[test]
    fn failure_and_recovery_are_printed_once() {
        let mut delivery = delivery("/srv/whylat");
        assert_eq!(delivery.news_of_target(&state(None)), None);
        let (priority, messages) = delivery
            .news_of_target(&state(Some("x.parquet: Permission denied")))
            .unwrap();
        assert_eq!(priority, LogPriority::Warning);
        assert!(
            messages.starts_with("cannot deliver to /srv/whylat: x.parquet: Permission denied; "),
            "{messages}"
        );
        assert!(
            messages.contains("\nhint: the directory must exist"),
            "{messages}"
        );
        assert_eq!(
            delivery.news_of_target(&state(Some("y.parquet: Permission denied"))),
            None
        );
        let again = (
            LogPriority::Info,
            "/srv/whylat takes files again".to_owned(),
        );
        assert_eq!(delivery.news_of_target(&state(None)), Some(again));
        assert_eq!(delivery.news_of_target(&state(None)), None);
    }

    #[test]
    fn disk_failure_is_not_a_target_failure() {
        let mut delivery = delivery("/srv/whylat");
        let spool = |why: &str| ShipState {
            spool_failure: Some(why.to_owned()),
            ..ShipState::default()
        };
        let messages = delivery.news(&spool("spool /x: full"));
        assert_eq!(messages.len(), 1);
        assert!(
            messages[0].1.starts_with("spool /x: full\nhint: "),
            "{messages:?}"
        );
        assert_eq!(delivery.news(&spool("spool /x: full")).len(), 0);
        assert_eq!(delivery.news(&spool("spool /x: gone")).len(), 1);
    }

    #[test]
    fn the_hint_is_that_of_the_target() {
        let messages = delivery("s3://bucket/x")
            .news_of_target(&state(Some("denied")))
            .unwrap()
            .1;
        assert!(messages.contains("credentials"), "{messages}");
    }
}
