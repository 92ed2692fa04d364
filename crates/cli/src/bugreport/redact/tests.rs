//! Tests of what is redacted.

use super::*;
use serde_json::json;

/// Redacts a value.
fn redacted(value: Value) -> Value {
    redacted_by(Redactor::new(&crate::program()), value)
}

/// Redacts a value after its secrets are learned.
fn redacted_by(mut redactor: Redactor, mut value: Value) -> Value {
    redactor.learn_secrets([&value].into_iter());
    redactor.value(&mut value);
    value
}

#[test]
fn equal_secrets_get_equal_placeholders() {
    let redacted_json = redacted(json!([
        {"header": {"host": "canary-host", "detail": "waits", "format": 1}},
        {"coverage": {"probe": "usdt", "why": "no /srv/canary on Canary-Host (10.7.7.7:443), not 10.7.7.7"}},
    ]));
    let header = &redacted_json[0]["header"];
    assert_eq!(
        (&header["detail"], &header["format"]),
        (&json!("waits"), &json!(1))
    );
    // not the first one: this host has a name, too
    let host = header["host"].as_str().expect("a word");
    assert!(host.starts_with("<host-"), "{host}");
    let why = format!("no <path-1> on {host} (<address-1>:443), not <address-1>");
    assert_eq!(redacted_json[1]["coverage"]["why"], why);
}

#[test]
fn command_lines_keep_whylat_words() {
    let redacted_json = redacted(json!({"arguments":
        ["/opt/canary/whylat", "run", "--detail", "calls", "-o", "canary.whylat", "--", "./canary", "run", "--key=canary"],
        "why": "cannot start canary"}));
    let kept: Vec<&str> = redacted_json["arguments"]
        .as_array()
        .expect("words")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(kept[..5], ["whylat", "run", "--detail", "calls", "-o"]);
    assert_eq!(kept[6], "--");
    // the command's own word `run` is not whylat's
    assert_ne!(kept[8], "run");
    assert!(
        !redacted_json.to_string().contains("canary"),
        "{redacted_json}"
    );
}

#[test]
fn unknown_keys_are_redacted() {
    let redacted_json = redacted(
        json!({"new": "canary", "list": [["canary"]], "usdt": {"provider": "p", "name": "canary", "path": "/x", "places": 2}}),
    );
    assert!(
        !redacted_json.to_string().contains("canary"),
        "{redacted_json}"
    );
    assert_eq!(redacted_json["usdt"]["places"], 2);
}

#[test]
fn common_paths_and_addresses_stay() {
    let why = "this kernel has no BTF (/sys/kernel/btf/vmlinux); listens on 127.0.0.1:80";
    assert_eq!(redacted(json!({"why": why}))["why"], why);
    let hardware = redacted(json!({"why": "adapter 02:ab:00:11:22:33: busy"}));
    assert_eq!(hardware["why"], "adapter <address-1>: busy");
    let why = "6.1.0-13 at 12:34:56, I/O of whylat.doctor/1 and/or [::1]:80";
    assert_eq!(redacted(json!({"why": why}))["why"], why);
}

/// Returns a text after redaction as the reason of a probe.
fn why(text: &str) -> String {
    let redacted_json = redacted(json!({"why": text}));
    redacted_json["why"].as_str().expect("text").to_owned()
}

#[test]
fn text_around_addresses_is_shown() {
    for (text, redacted_json) in [
        ("to=10.7.7.7/24,", "to=<address-1>/24,"),
        ("peer:10.7.7.7:80", "peer:<address-1>:80"),
        ("http://10.7.7.7:80/x", "http://<address-1>:80<path-1>"),
        (
            "http://[fe80::7%eth0]:80/x",
            "http://[<address-1>]:80<path-1>",
        ),
        (
            "fe80::7%eth0, FE80:0::7 and ::ffff:10.7.7.7, 10.7.7.7",
            "<address-1>, <address-1> and <address-2>, <address-2>",
        ),
    ] {
        assert_eq!(why(text), redacted_json);
    }
}

/// Makes addresses of all kinds, known and pseudo-random ones.
fn addresses() -> Vec<String> {
    let known = [
        "10.1.2.3",
        "203.0.113.254",
        "fe80::1",
        "2001:DB8:0:0:0:0:0:1",
        "2001:db8::8a2e:370:7334",
        "::ffff:10.9.8.7",
        "02:ab:00:11:22:33",
        "02-AB-00-11-22-33",
    ];
    let mut state = 1u64;
    let mut next = || {
        // Knuth's MMIX
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 32
    };
    let mut all = known.map(str::to_owned).to_vec();
    for _ in 0..50 {
        // not a loopback address
        let octets = [128 | next() as u8, next() as u8, next() as u8, next() as u8];
        all.push(std::net::Ipv4Addr::from(octets).to_string());
        // a group in two is zero, as in most that are used
        let mut groups = [0u16; 8].map(|_| next() as u16 * (next() as u16 & 1));
        groups[0] = 0x2000 | next() as u16;
        all.push(std::net::Ipv6Addr::from(groups).to_string());
    }
    all
}

#[test]
fn addresses_are_redacted_in_any_text() {
    let program = crate::program();
    for address in addresses() {
        let around = [
            ("", ""),
            ("at ", "."),
            ("to=", ","),
            ("peer:", ""),
            ("dead:", ": refused"),
            ("(", ")"),
            ("\"", "\""),
            ("--to=[", "]:80"),
            ("http://", "/x"),
            ("http://canary@[", "%eth0]:80/x"),
            ("", "/24"),
            ("", "%eth0.7"),
            ("/srv/", "/x"),
            ("7-", "-7"),
        ];
        for (before, after) in around {
            let text = format!("{before}{address}{after}");
            let free =
                json!({"why": &text, "name": [&text], "remedy": format!("ask {text} again")});
            let known = json!([
                {"arguments": ["whylat", "run", "--", "x", &text], "new": &text},
                &free,
            ]);
            // adapters' addresses have no zone
            let has_zone = address.parse::<std::net::IpAddr>().is_ok();
            for value in [free, known] {
                let redacted_json = redacted_by(Redactor::new(&program), value).to_string();
                let redacted_json = redacted_json.to_ascii_lowercase();
                let is_shown = redacted_json.contains(&address.to_ascii_lowercase());
                let shows_zone = has_zone && redacted_json.contains("eth0");
                assert!(!is_shown && !shows_zone, "{text}: {redacted_json}");
            }
        }
    }
}

#[test]
fn name_parts_do_not_break_addresses() {
    let redacted_json = redacted(json!({
        "arguments": ["whylat", "run", "--", "x", "--ratio=10.1", "fe80::1", "2001"],
        "why": "10.1.2.3 fe80::1:2 2001:db8::5",
    }));
    let why = redacted_json["why"].as_str().expect("text");
    let is_address = |word: &str| word.starts_with("<address-") && word.ends_with('>');
    assert!(why.split(' ').all(is_address), "{why}");
}

#[test]
fn users_and_hosts_are_redacted_everywhere() {
    let redacted_json = redacted(json!([
        {"header": {"host": "web7.canary.example"}},
        {"why": "WEB7:80, db.canary.example", "remedy": "ask robin"},
        {"why": "file=/home/robin/x, file:///var/home/robin/y: robin may not, ~robin/z, ./robin/z"},
        {"why": "to=/srv/canary http://canary.org/x /proc/self/../../srv/canary"},
    ]));
    let redacted_json = redacted_json.to_string().to_ascii_lowercase();
    for secret in ["canary", "robin", "web7", "srv"] {
        assert!(!redacted_json.contains(secret), "{secret}: {redacted_json}");
    }
}
