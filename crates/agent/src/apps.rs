//! The application of a connection. In: what is known of the connection's owner, and the rules of the
//! configuration in order. Out: the application of the first rule that matches.
//!
//! All conditions of a rule must hold. What is not known of an owner fulfils no condition.

use globset::{Glob, GlobBuilder, GlobMatcher};
use regex::Regex;
use serde::{Deserialize, Serialize};

/// A rule: who belongs to an application, and what the application is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Application {
    /// Name of the application.
    pub name: String,
    /// Its tier, such as `web` or `storage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Whether users wait for its answers: reports show such applications apart.
    pub delay_sensitive: bool,
    /// Regular expression that is found in the command line (arguments with a blank between them).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Command name (`/proc/PID/comm`, at most 15 bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// Pattern of the whole path in the cgroup tree: `*` stays within a level, `**` does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Pattern of `NAMESPACE/NAME` of the pod: `*` stays within a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Pattern of `NAMESPACE/NAME` of the workload of the pod: `*` stays within a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Name of the container, or the start of its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Pattern of the name of the systemd unit, as `nginx.service`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Ports on which it listens: connections that were accepted there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
}

/// Attributes of a connection and its process that the rules of applications read; `None`: not known.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionFacts<'a> {
    /// Command line, arguments with a blank between them.
    pub command: Option<&'a str>,
    /// Command name.
    pub comm: Option<&'a str>,
    /// Path in the cgroup v2 tree. It names container and systemd unit.
    pub cgroup: Option<&'a str>,
    /// `NAMESPACE/NAME` of its pod.
    pub pod: Option<&'a str>,
    /// `NAMESPACE/NAME` of the workload of its pod.
    pub workload: Option<&'a str>,
    /// Name of its container.
    pub container: Option<&'a str>,
    /// Port on which its process listens, of an accepted connection.
    pub listening_port: Option<u16>,
}

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The rule's place in the list, from 0.
    pub index: usize,
    /// Name of its application; may be empty.
    pub application: String,
    /// The key with the wrong value.
    pub key: &'static str,
    /// The fault in it.
    pub problem: String,
    /// The text to write instead.
    pub hint: &'static str,
}

/// Rules that are ready to be asked.
#[derive(Debug, Clone, Default)]
pub struct ApplicationRules(Vec<ApplicationRule>);

#[derive(Debug, Clone)]
struct ApplicationRule {
    application: Application,
    command: Option<Regex>,
    cgroup: Option<GlobMatcher>,
    pod: Option<GlobMatcher>,
    workload: Option<GlobMatcher>,
    unit: Option<GlobMatcher>,
}

impl ApplicationRules {
    /// Compiles all rules.
    ///
    /// # Errors
    /// When a rule has no name or no condition, or a pattern is none.
    pub fn new(applications: &[Application]) -> Result<Self, RuleError> {
        let rules = applications
            .iter()
            .enumerate()
            .map(|(index, application)| ApplicationRule::new(index, application));
        rules.collect::<Result<_, _>>().map(Self)
    }

    /// Returns the application of the first rule that matches.
    pub fn application(&self, facts: &ConnectionFacts<'_>) -> Option<&Application> {
        let rule = self.0.iter().find(|rule| rule.matches(facts))?;
        Some(&rule.application)
    }
}

impl ApplicationRule {
    /// Compiles the patterns of a rule; an error names the pattern that is wrong.
    fn new(index: usize, application: &Application) -> Result<Self, RuleError> {
        let fault = |key, problem: String, hint| RuleError {
            index,
            application: application.name.clone(),
            key,
            problem,
            hint,
        };
        if application.name.is_empty() {
            let hint = "name = \"shop\": its name in reports";
            return Err(fault("name", "has no name".to_owned(), hint));
        }
        if !application.has_condition() {
            let hint = "add one of command, comm, cgroup, pod, workload, container, unit, ports";
            return Err(fault("name", "matches every connection".to_owned(), hint));
        }
        let glob = |key, pattern: &Option<String>| {
            let glob = pattern.as_deref().map(glob).transpose();
            glob.map_err(|error| {
                let hint = "as in \"/system.slice/*.service\"; `**` also matches /";
                fault(key, format!("{key}: {error}"), hint)
            })
        };
        let command = application.command.as_deref().map(Regex::new).transpose();
        let command = command.map_err(|error| {
            let what = format!("command: {}", one_line(&error.to_string()));
            let hint = "a regular expression in single quotes, as in '^/usr/sbin/nginx '";
            fault("command", what, hint)
        })?;
        Ok(Self {
            command,
            cgroup: glob("cgroup", &application.cgroup)?,
            pod: glob("pod", &application.pod)?,
            workload: glob("workload", &application.workload)?,
            unit: glob("unit", &application.unit)?,
            application: application.clone(),
        })
    }

    /// Returns whether a connection meets all conditions of the rule.
    fn matches(&self, facts: &ConnectionFacts<'_>) -> bool {
        let Application {
            name: _,
            tier: _,
            delay_sensitive: _,
            command: _,
            comm,
            cgroup: _,
            pod: _,
            workload: _,
            container,
            unit: _,
            ports,
        } = &self.application;
        let holds = |wanted: bool, is: &dyn Fn() -> Option<bool>| !wanted || is() == Some(true);
        holds(!ports.is_empty(), &|| {
            Some(ports.contains(&facts.listening_port?))
        }) && holds(comm.is_some(), &|| Some(comm.as_deref()? == facts.comm?))
            && holds(self.unit.is_some(), &|| {
                Some(self.unit.as_ref()?.is_match(unit_of(facts.cgroup?)?))
            })
            && holds(container.is_some(), &|| {
                let wanted = container.as_deref()?;
                let is_named = facts.container == Some(wanted);
                Some(is_named || container_of(facts.cgroup?)?.starts_with(wanted))
            })
            && holds(self.pod.is_some(), &|| {
                Some(self.pod.as_ref()?.is_match(facts.pod?))
            })
            && holds(self.workload.is_some(), &|| {
                Some(self.workload.as_ref()?.is_match(facts.workload?))
            })
            && holds(self.cgroup.is_some(), &|| {
                Some(self.cgroup.as_ref()?.is_match(facts.cgroup?))
            })
            && holds(self.command.is_some(), &|| {
                Some(self.command.as_ref()?.is_match(facts.command?))
            })
    }
}

impl Application {
    /// Returns whether the rule has any condition.
    fn has_condition(&self) -> bool {
        self.command.is_some()
            || self.comm.is_some()
            || self.cgroup.is_some()
            || self.pod.is_some()
            || self.workload.is_some()
            || self.container.is_some()
            || self.unit.is_some()
            || !self.ports.is_empty()
    }
}

/// Compiles a pattern in which `*` does not match `/`.
fn glob(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    let glob: Glob = GlobBuilder::new(pattern).literal_separator(true).build()?;
    Ok(glob.compile_matcher())
}

/// Returns the last line of an error.
fn one_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().trim().to_owned()
}

/// Returns the systemd unit of a cgroup path: its innermost part with the name of a service, scope or socket.
pub fn unit_of(cgroup: &str) -> Option<&str> {
    let is_unit = |part: &&str| {
        [".service", ".scope", ".socket"]
            .iter()
            .any(|kind| part.ends_with(kind))
    };
    cgroup.rsplit('/').find(is_unit)
}

/// The container that a cgroup path is of: 64 hexadecimal digits, as container engines name them (OCI runtimes of
/// Docker, containerd and Podman: `docker-ID.scope`, `cri-containerd-ID.scope`, `libpod-ID.scope`, `/docker/ID`).
pub fn container_of(cgroup: &str) -> Option<&str> {
    cgroup
        .rsplit(['/', '-', '.', ':'])
        .find(|part| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f1c0a8a7f6d5e4c3b2a19081726354433221100ffeeddccbbaa998877665544";

    /// Compiles rules, which must be right.
    fn rules(applications: &[Application]) -> ApplicationRules {
        ApplicationRules::new(applications).expect("rules")
    }

    /// Makes a rule of this name without conditions.
    fn named(name: &str) -> Application {
        Application {
            name: name.to_owned(),
            ..Application::default()
        }
    }

    /// Returns the application of a connection; None if no rule fits.
    fn name_of<'a>(rules: &'a ApplicationRules, facts: &ConnectionFacts<'_>) -> Option<&'a str> {
        rules.application(facts).map(|app| app.name.as_str())
    }

    #[test]
    fn the_first_rule_that_matches_names_it() {
        let rules = rules(&[
            Application {
                command: Some("--shop( |$)".to_owned()),
                ..named("shop")
            },
            Application {
                comm: Some("java".to_owned()),
                ..named("java")
            },
        ]);
        let mut facts = ConnectionFacts {
            command: Some("/usr/bin/java --shop -Xmx1g"),
            comm: Some("java"),
            ..ConnectionFacts::default()
        };
        assert_eq!(name_of(&rules, &facts), Some("shop"));
        facts.command = Some("/usr/bin/java --shopping");
        assert_eq!(name_of(&rules, &facts), Some("java"));
        facts.comm = Some("javac");
        assert_eq!(name_of(&rules, &facts), None);
    }

    #[test]
    fn pods_and_containers_are_known_by_name() {
        let rules = rules(&[
            Application {
                pod: Some("shop/cache-*".to_owned()),
                container: Some("redis".to_owned()),
                ..named("cache")
            },
            Application {
                pod: Some("shop/*".to_owned()),
                ..named("shop")
            },
        ]);
        let facts = |pod, container| ConnectionFacts {
            pod,
            container,
            ..ConnectionFacts::default()
        };
        let cache = Some("shop/cache-0");
        assert_eq!(name_of(&rules, &facts(cache, Some("redis"))), Some("cache"));
        assert_eq!(name_of(&rules, &facts(cache, Some("redis2"))), Some("shop"));
        assert_eq!(name_of(&rules, &facts(cache, None)), Some("shop"));
        assert_eq!(
            name_of(&rules, &facts(Some("test/cache-0"), Some("redis"))),
            None
        );
        assert_eq!(name_of(&rules, &facts(None, Some("redis"))), None);
    }

    #[test]
    fn workloads_are_known_by_name() {
        let rules = rules(&[Application {
            workload: Some("shop/web*".to_owned()),
            ..named("web")
        }]);
        let facts = |workload| ConnectionFacts {
            workload,
            ..ConnectionFacts::default()
        };
        assert_eq!(name_of(&rules, &facts(Some("shop/web-api"))), Some("web"));
        assert_eq!(name_of(&rules, &facts(Some("test/web"))), None);
        assert_eq!(name_of(&rules, &facts(None)), None);
    }

    #[test]
    fn rule_needs_all_conditions_and_known_facts() {
        let rules = rules(&[Application {
            comm: Some("nginx".to_owned()),
            ports: vec![443],
            ..named("web")
        }]);
        let facts = |comm, listening_port| ConnectionFacts {
            comm,
            listening_port,
            ..ConnectionFacts::default()
        };
        assert_eq!(
            name_of(&rules, &facts(Some("nginx"), Some(443))),
            Some("web")
        );
        assert_eq!(name_of(&rules, &facts(Some("nginx"), Some(80))), None);
        assert_eq!(name_of(&rules, &facts(Some("nginx"), None)), None);
        assert_eq!(name_of(&rules, &facts(None, Some(443))), None);
    }

    #[test]
    fn cgroups_name_units_and_containers() {
        let docker = format!("/system.slice/docker-{ID}.scope");
        let pod =
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope/init.service/x");
        let old = format!("/docker/{ID}");
        assert_eq!(container_of(&docker), Some(ID));
        assert_eq!(container_of(&pod), Some(ID));
        assert_eq!(container_of(&old), Some(ID));
        assert_eq!(container_of("/system.slice/nginx.service"), None);
        assert_eq!(
            unit_of("/system.slice/nginx.service"),
            Some("nginx.service")
        );
        assert_eq!(
            unit_of("/user.slice/user-0.slice/user@0.service/app.slice/x.scope"),
            Some("x.scope")
        );
        assert_eq!(unit_of("/"), None);
        let by = |application| {
            let rules = rules(&[application]);
            move |cgroup: &str| {
                let facts = ConnectionFacts {
                    cgroup: Some(cgroup),
                    ..ConnectionFacts::default()
                };
                rules.application(&facts).is_some()
            }
        };
        let by_container = by(Application {
            container: Some(ID[..12].to_owned()),
            ..named("a")
        });
        assert!(by_container(&docker) && by_container(&old) && !by_container("/"));
        let by_unit = by(Application {
            unit: Some("postgresql@*.service".to_owned()),
            ..named("b")
        });
        assert!(by_unit(
            "/system.slice/system-postgresql.slice/postgresql@15-main.service"
        ));
        assert!(!by_unit("/system.slice/nginx.service"));
        let by_glob = by(Application {
            cgroup: Some("/system.slice/*.service".to_owned()),
            ..named("c")
        });
        assert!(by_glob("/system.slice/nginx.service"));
        assert!(!by_glob("/system.slice/a.slice/nginx.service"));
    }

    #[test]
    fn a_rule_for_everything_or_nobody_is_refused() {
        let everything = ApplicationRules::new(&[named("all")]).expect_err("refused");
        assert!(everything.problem.contains("matches every connection"));
        let nobody = ApplicationRules::new(&[Application {
            comm: Some("x".to_owned()),
            ..Application::default()
        }]);
        assert!(nobody.expect_err("refused").problem.contains("has no name"));
    }
}
