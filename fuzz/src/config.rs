//! The agent's configuration.

use std::path::Path;

use agent::apps::ConnectionFacts;
use agent::config::Config;

/// A configuration file. One that is taken is ready to be used; of one that is refused is told what to do.
pub fn agent_config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Config::parse(Path::new("agent.toml"), text) {
        Ok(config) => {
            let rules = config.rules().expect("rules that were checked");
            let _nobody = rules.application(&ConnectionFacts::default());
            assert_eq!(config.needs_restart(&config), None);
        }
        Err(why) => assert!(why.to_string().contains("hint: "), "{why}"),
    }
}
