//! Configuration files: the agent's, and that of the command line.

use std::path::Path;

use agent::apps::ConnectionFacts;

use super::profile::{Config, Profile};
use super::values::ProfileOptions;

/// The agent's configuration file. An accepted one is ready to use; a refused one has a hint.
pub fn agent_config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match agent::config::Config::parse(Path::new("agent.toml"), text) {
        Ok(config) => {
            let rules = config.rules().expect("rules that were checked");
            let _nobody = rules.application(&ConnectionFacts::default());
            assert_eq!(config.needs_restart(&config), None);
        }
        Err(why) => assert!(why.to_string().contains("hint: "), "{why}"),
    }
}

/// The command line's configuration file. What a profile names is what its options take; of a file that is refused, and
/// of a missing profile, has a hint.
pub fn profiles(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Config::parse(Path::new("config.toml"), text)
        .and_then(|config| config.take_profile("deep"))
    {
        Ok(profile) => check(profile),
        Err(why) => assert!(why.to_string().contains("hint: "), "{why}"),
    }
}

fn check(profile: Profile) {
    let Profile {
        options,
        output_dir,
    } = profile;
    let ProfileOptions {
        usdt,
        detail,
        follow,
        budget,
        keep,
        trigger,
        nic_stamps,
        recorder_cpus,
        poll_ms,
    } = options.or_profile(ProfileOptions::default());
    let _taken = (
        follow,
        budget,
        trigger,
        nic_stamps,
        recorder_cpus,
        usdt,
        output_dir,
    );
    let _detail = detail.map(record::Detail::from);
    assert_ne!(poll_ms, Some(0));
    let share = keep.and_then(|keep| keep.slower_than);
    assert!(share.is_none_or(|share| (0.0..1.0).contains(&share)));
}
