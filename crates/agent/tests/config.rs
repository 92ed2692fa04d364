//! Configurations: the example is one, every key is explained, and what is wrong is named with its line.

use std::path::Path;

use whylat_agent::apps::Application;
use whylat_agent::config::{Config, ConfigError, Detail};

const EXAMPLE: &str = include_str!("../../../packaging/agent.toml");
/// Has a table of all keys.
const GUIDE: &str = include_str!("../../../docs/fleet/agent.md");

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("agent.toml"), text)
}

/// Returns the error of a configuration.
fn refusal(text: &str) -> String {
    parse(text).expect_err("refused").to_string()
}

const SHIP: &str = "[ship]\ntarget = \"/srv/whylat\"\n";

/// Returns the example with its shown settings: lines that begin with # and no blank.
fn shown() -> String {
    let shown = |line: &'static str| match line.strip_prefix('#') {
        Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting,
        _ => line,
    };
    EXAMPLE.lines().map(shown).collect::<Vec<_>>().join("\n")
}

#[test]
fn example_configuration_has_defaults() {
    assert_eq!(
        parse(EXAMPLE).expect("the example"),
        parse(SHIP).expect("defaults")
    );
    let mut example = parse(&shown()).expect("what the example shows");
    assert_eq!(example.host.name, "web-1");
    example.host = Config::default().host;
    assert_eq!(example.applications.len(), 4);
    let rules = example.rules().expect("rules");
    let facts = whylat_agent::apps::ConnectionFacts {
        comm: Some("nginx"),
        cgroup: Some("/system.slice/nginx.service"),
        ..Default::default()
    };
    assert_eq!(
        rules.application(&facts).map(|app| app.name.as_str()),
        Some("proxy")
    );
    example.applications.clear();
    assert_eq!(example, parse(SHIP).expect("defaults"));
}

/// Returns the names of all keys, those of a rule included.
fn keys() -> Vec<String> {
    let config = Config {
        applications: vec![Application {
            tier: Some(String::new()),
            command: Some(String::new()),
            comm: Some(String::new()),
            cgroup: Some(String::new()),
            container: Some(String::new()),
            pod: Some(String::new()),
            workload: Some(String::new()),
            unit: Some(String::new()),
            ports: vec![1],
            ..Application::default()
        }],
        ..Config::default()
    };
    let mut keys = Vec::new();
    let value = toml::Table::try_from(config).expect("a table");
    for (section, keys_of) in value {
        let table = match keys_of {
            toml::Value::Array(mut list) => list.remove(0),
            table => table,
        };
        let table = table.as_table().expect("a table").clone();
        keys.extend(table.keys().map(|key| format!("{section}.{key}")));
    }
    keys
}

#[test]
fn every_key_is_explained() {
    let keys = keys();
    assert!(keys.len() >= 20, "{keys:?}");
    for key in keys {
        let (section, name) = key.split_once('.').expect("a key");
        let of_section = |text: &str| -> String {
            let header = format!("[{section}]");
            let from = text.find(&header).unwrap_or_else(|| panic!("{header}"));
            text[from..].to_owned()
        };
        let text = of_section(&shown());
        assert!(text.contains(&format!("{name} = ")), "{key} in the example");
        let row = format!("[{section}] {name}`");
        let row = if section == "application" {
            format!("[{row}").replacen("] ", "]] ", 1)
        } else {
            row
        };
        assert!(GUIDE.contains(&row), "{row} in the operator's guide");
    }
}

#[test]
fn unknown_keys_are_refused_with_suggestion() {
    let text = format!("{SHIP}[watch]\ndetail = \"calls\"\npol_ms = 5\n");
    let refused = refusal(&text);
    assert!(
        refused.starts_with("agent.toml:5: unknown field `pol_ms`"),
        "{refused}"
    );
    assert!(
        refused.ends_with("hint: the nearest known name is `poll_ms`"),
        "{refused}"
    );
    let refused = refusal("[shipp]\ntarget = \"/x\"\n");
    assert!(
        refused.starts_with("agent.toml:1: unknown field `shipp`"),
        "{refused}"
    );
    assert!(refused.contains("`ship`"), "{refused}");
    let refused = refusal(&format!("{SHIP}[watch]\ndetail = \"call\"\n"));
    assert!(
        refused.starts_with("agent.toml:4: unknown variant `call`"),
        "{refused}"
    );
    assert!(refused.ends_with("`calls`"), "{refused}");
}

/// A wrong value, its line, and the error.
#[test]
fn invalid_values_are_refused_with_line() {
    let rule = "[[application]]\nname = \"a\"\ncomm = \"a\"\n[[application]]\nname = \"b\"\n";
    let cases = [
        ("[watch]\npoll_ms = 5\n", 4, "poll_ms = 5: not between"),
        ("[watch]\npoll_ms = -5\n", 4, "invalid value"),
        ("[watch]\ninterval_s = 7\n", 4, "interval_s = 7"),
        ("[watch]\ninterval_s = 0\n", 4, "interval_s = 0"),
        ("[watch]\ninterval_s = 15\n", 4, "a multiple of bins"),
        ("[watch]\ncpu_high = 1.5\n", 4, "not a share"),
        ("[watch]\ncpu_low = 0.5\n", 4, "cpu_low = 0.5: not between"),
        ("[watch]\ncpu_low = nan\n", 4, "cpu_low"),
        ("[host]\nname = \"\"\n", 4, "is empty"),
        ("[host]\nname = \"a\\nb\"\n", 4, "control characters"),
        (
            "[metrics]\nlisten = \"localhost\"\n",
            4,
            "not an address with a port",
        ),
        (
            &format!("{rule}command = '('\n"),
            8,
            "[[application]] b command:",
        ),
        (
            &format!("{rule}cgroup = \"[\"\n"),
            8,
            "[[application]] b cgroup:",
        ),
        (rule, 7, "matches every connection"),
        (
            "[otlp]\nendpoint = \"collector:4318\"\n",
            4,
            "no http:// or https:// URL",
        ),
        (
            "[otlp]\nendpoint = \"http://me:secret@collector\"\n",
            4,
            "endpoint holds credentials",
        ),
        ("[otlp]\nprotocol = \"http/json\"\n", 4, "not known"),
        ("[otlp]\nqueue_max_bytes = 5\n", 4, "less than 1048576"),
        ("spool = 5\n", 3, "invalid type"),
        ("= 5\n", 3, ""),
    ];
    for (text, line, what) in cases {
        let refused = refusal(&format!("{SHIP}{text}"));
        assert!(
            refused.starts_with(&format!("agent.toml:{line}: ")),
            "{text}: {refused}"
        );
        assert!(refused.contains(what), "{text}: {refused}");
        assert!(refused.contains("\nhint: "), "{text}: {refused}");
        assert!(!refused.contains("secret@"), "{refused}");
    }
    assert!(parse(&format!("{SHIP}[metrics]\nlisten = \"[::1]:0\"\n")).is_ok());
    assert!(parse(&format!("{SHIP}[metrics]\nlisten = \"\"\n")).is_ok());
    assert!(parse(&format!("{SHIP}[metrics]\nlisten = \"0.0.0.0:1\"\n")).is_ok());
}

#[test]
fn targets_are_directories_or_urls_without_secrets() {
    let of = |target: &str| parse(&format!("[ship]\ntarget = \"{target}\"\n"));
    for good in [
        "/srv/x",
        "s3://bucket/x",
        "gs://bucket",
        "az://c/x",
        "https://h/x",
    ] {
        assert!(of(good).is_ok(), "{good}");
    }
    for (bad, what) in [
        ("srv", "neither an absolute path"),
        ("ftp://h/x", "ftp:// is not known"),
        ("https://me:secret@h/x", "credentials"),
        ("https://h/x?sig=secret", "question mark"),
        ("s3://", "no bucket"),
    ] {
        let refused = of(bad).expect_err("refused").to_string();
        assert!(refused.contains(what), "{bad}: {refused}");
        assert!(
            !refused.contains("secret@") && !refused.contains("sig="),
            "{refused}"
        );
    }
    let refused = refusal("[ship]\ntarget = \"/x\"\nspool = \"spool\"\n");
    assert!(refused.contains("agent.toml:3: [ship] spool"), "{refused}");
    let refused = refusal("[ship]\ntarget = \"/x\"\nspool_max_bytes = 1000\n");
    assert!(
        refused.contains("agent.toml:3: [ship] spool_max_bytes"),
        "{refused}"
    );
}

#[test]
fn agent_without_files_needs_a_collector() {
    let path = Path::new("agent.toml");
    for text in ["", "[ship]\n", "[ship]\ntarget = \"\"\n"] {
        let config = parse(text).expect("a configuration");
        assert!(!config.ship.is_wanted());
        config.check_receivers(path, true).expect("a collector");
        let refused = config.check_receivers(path, false);
        let refused = refused.expect_err("refused").to_string();
        assert!(
            refused.starts_with("agent.toml: names no receiver: "),
            "{refused}"
        );
        assert!(refused.contains("\nhint: [ship] target = "), "{refused}");
    }
    let files = parse(SHIP).expect("a configuration");
    files.check_receivers(path, false).expect("files");
    // who sets a spool wants files
    let refused = refusal("[ship]\nspool = \"/var/spool/x\"\n");
    assert!(
        refused.starts_with("agent.toml:1: [ship] target is missing"),
        "{refused}"
    );
}

#[test]
fn missing_file_is_reported() {
    let refused = Config::read(Path::new("/nonexistent/agent.toml")).expect_err("refused");
    let refused = refused.to_string();
    assert!(
        refused.starts_with("cannot read /nonexistent/agent.toml: No such file"),
        "{refused}"
    );
}

#[test]
fn settings_that_need_restart_are_reported() {
    let of = |text: &str| parse(&format!("{SHIP}{text}")).expect("a configuration");
    let before = of("");
    assert_eq!(before.needs_restart(&before), None);
    let reloadable =
        "[watch]\npoll_ms = 100\ncpu_high = 0.5\n[[application]]\nname = \"a\"\ncomm = \"a\"\n";
    assert_eq!(before.needs_restart(&of(reloadable)), None);
    let stats = of("[watch]\ndetail = \"stats\"\n");
    assert_eq!(stats.watch.detail, Detail::Stats);
    assert_eq!(before.needs_restart(&stats), Some("[watch] detail"));
    assert_eq!(
        before.needs_restart(&of("[host]\nname = \"x\"\n")),
        Some("[host] name")
    );
    assert_eq!(
        before.needs_restart(&of("[watch]\ninterval_s = 2\n")),
        Some("[watch] interval_s")
    );
}
