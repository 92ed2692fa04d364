//! The workload of a pod. In: the pod's name, and its labels where the runtime shows them. Out: kind and name of the
//! Deployment, StatefulSet, DaemonSet, Job or CronJob, and the facts that show it.
//!
//! The owner of a pod is known to the API server alone. But each controller gives labels to its pods, and names them by
//! a rule of its own:
//!
//! ```text
//! Deployment   NAME-HASH-RANDOM    pod-template-hash: HASH
//! StatefulSet  NAME-ORDINAL        statefulset.kubernetes.io/pod-name: the pod's name; controller-revision-hash: NAME-HASH
//! DaemonSet    NAME-RANDOM         controller-revision-hash: HASH; pod-template-generation: NUMBER
//! Job          NAME-[INDEX-]RANDOM batch.kubernetes.io/job-name: NAME; batch.kubernetes.io/controller-uid: UID
//! CronJob      as the Job that it makes, which is named NAME-MINUTES
//! ```
//!
//! Labels that do not fit the name show no workload: a user can give any label to a pod.

use serde_json::Value;
use table::{WorkloadKind, WorkloadSource};

use super::pod::subdomain;

/// Characters of the random end of a name (`alphanums` of Kubernetes' package `rand`).
const RANDOM: &str = "bcdfghjklmnpqrstvwxz2456789";
/// Characters of that end (`randomLength` of the package `names`).
const RANDOM_BYTES: usize = 5;
/// Longest name that ends so (`maxNameLength` there). What is before its end was cut to fit if the name is as long.
const GENERATED_BYTES: usize = 63;
/// Digits of a hash of a template, 0 to 9: `SafeEncodeString` writes its decimal digits so.
const HASH_DIGITS: &str = "456789bcdf";
/// Least digits of a hash in a name without labels. Of the hashes, which are of 32 bits, 0.2 % are shorter; they are
/// too like words and numbers.
const HASH_DIGITS_LEAST: usize = 8;
/// Minutes from 1970 to the release of Kubernetes 1.0 (2015-07-21): no CronJob was scheduled before. Dates such as
/// 20261128 are less.
const FIRST_MINUTE: u64 = 23_957_280;
/// Digits of such minutes, until the year 2160.
const MINUTE_DIGITS: usize = 8;

const TEMPLATE_HASH: &str = "pod-template-hash";
const REVISION_HASH: &str = "controller-revision-hash";
const GENERATION: &str = "pod-template-generation";
const STATEFUL_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// Since Kubernetes 1.27, and before.
const JOB_NAME: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
const JOB_UID: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// A workload that has pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its name, in the namespace of the pod.
    pub name: String,
    /// The facts that show it.
    pub source: WorkloadSource,
}

/// Labels of a pod that controllers give.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PodLabels {
    template_hash: Option<String>,
    revision_hash: Option<String>,
    generation: Option<String>,
    stateful_name: Option<String>,
    job_name: Option<String>,
    job_uid: Option<String>,
}

impl PodLabels {
    /// Chooses them from all labels of a pod.
    pub(super) fn choose<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let get = |key: &str| get(key).map(str::to_owned);
        let first = |keys: [&str; 2]| keys.into_iter().find_map(get);
        Self {
            template_hash: get(TEMPLATE_HASH),
            revision_hash: get(REVISION_HASH),
            generation: get(GENERATION),
            stateful_name: get(STATEFUL_NAME),
            job_name: first(JOB_NAME),
            job_uid: first(JOB_UID),
        }
    }

    /// Reads them from an object of JSON; `None`: it is none.
    pub(super) fn read(labels: &Value) -> Option<Self> {
        let labels = labels.as_object()?;
        Some(Self::choose(|key| labels.get(key)?.as_str()))
    }

    fn find_deployment(&self, pod: &str) -> Option<Workload> {
        let hash = self.template_hash.as_deref()?;
        let replica_set = strip_random(pod)?;
        let name = replica_set.strip_suffix(hash)?.strip_suffix('-')?;
        by_labels(WorkloadKind::Deployment, name)
    }

    fn find_stateful_set(&self, pod: &str) -> Option<Workload> {
        let (name, ordinal) = pod.rsplit_once('-')?;
        let hash = self.revision_hash.as_deref()?.strip_prefix(name)?;
        let is_revision = hash.starts_with('-');
        let is_pod = self.stateful_name.as_deref()? == pod;
        (is_pod && is_revision && is_number(ordinal))
            .then(|| by_labels(WorkloadKind::StatefulSet, name))?
    }

    fn find_daemon_set(&self, pod: &str) -> Option<Workload> {
        let has_revision = self.revision_hash.is_some() && self.generation.is_some();
        let is_whole = pod.len() < GENERATED_BYTES;
        (has_revision && is_whole)
            .then(|| by_labels(WorkloadKind::DaemonSet, strip_random(pod)?))?
    }

    fn find_job(&self, pod: &str) -> Option<Workload> {
        let job = subdomain(
            self.job_name
                .as_deref()
                .filter(|_| self.job_uid.is_some())?,
        )?;
        // a long name is cut in that of the pod
        let is_cut = |begin: &str| pod.len() == GENERATED_BYTES && job.starts_with(begin);
        let is_job = |begin: &str| begin == job || is_cut(begin);
        let is_indexed = |begin: &str| {
            let parts = begin.rsplit_once('-');
            parts.is_some_and(|(name, index)| is_number(index) && is_job(name))
        };
        let before_random = pod.len().checked_sub(RANDOM_BYTES);
        let is_its_pod = before_random
            .and_then(|end| pod.get(..end))
            .is_some_and(is_cut)
            || strip_random(pod).is_some_and(|begin| is_job(begin) || is_indexed(begin));
        let cron = || {
            let (name, minutes) = job.rsplit_once('-')?;
            let is_minutes = minutes.len() == MINUTE_DIGITS && is_number(minutes);
            let is_time = is_minutes && minutes.parse().is_ok_and(|it: u64| it >= FIRST_MINUTE);
            (is_time && !name.is_empty()).then(|| Workload {
                kind: WorkloadKind::CronJob,
                name: name.to_owned(),
                source: WorkloadSource::JobName,
            })
        };
        is_its_pod.then(|| cron().or_else(|| by_labels(WorkloadKind::Job, job)))?
    }
}

impl Workload {
    /// Finds the workload of a pod with this name and these labels; `None`: it has none, or nothing shows it. Labels
    /// that are not known are `None`.
    pub(super) fn find(pod: &str, labels: Option<&PodLabels>) -> Option<Self> {
        let Some(labels) = labels else {
            return find_deployment_by_name(pod);
        };
        labels
            .find_job(pod)
            .or_else(|| labels.find_stateful_set(pod))
            .or_else(|| labels.find_daemon_set(pod))
            .or_else(|| labels.find_deployment(pod))
    }
}

fn by_labels(kind: WorkloadKind, name: &str) -> Option<Workload> {
    (!name.is_empty()).then(|| Workload {
        kind,
        name: name.to_owned(),
        source: WorkloadSource::Labels,
    })
}

/// Finds the Deployment in `NAME-HASH-RANDOM`.
fn find_deployment_by_name(pod: &str) -> Option<Workload> {
    let (name, hash) = strip_random(pod)?.rsplit_once('-')?;
    (is_template_hash(hash) && !name.is_empty()).then(|| Workload {
        kind: WorkloadKind::Deployment,
        name: name.to_owned(),
        source: WorkloadSource::PodName,
    })
}

/// Returns the start of `BEGIN-RANDOM`.
fn strip_random(pod: &str) -> Option<&str> {
    let (begin, random) = pod.rsplit_once('-')?;
    let is_random = random.len() == RANDOM_BYTES && random.chars().all(|it| RANDOM.contains(it));
    is_random.then_some(begin)
}

/// Returns whether text is a number of 32 bits as `SafeEncodeString` writes it.
fn is_template_hash(text: &str) -> bool {
    let digit = |it: char| HASH_DIGITS.find(it).map(|digit| digit as u64);
    let digits: Option<Vec<u64>> = text.chars().map(digit).collect();
    let Some(digits) = digits.filter(|it| it.len() >= HASH_DIGITS_LEAST && it[0] != 0) else {
        return false;
    };
    let number = digits.into_iter().try_fold(0u64, |number, digit| {
        number.checked_mul(10)?.checked_add(digit)
    });
    number.is_some_and(|number| u32::try_from(number).is_ok())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `KIND NAME, SOURCE`, of a pod with labels; `None`: they are not known.
    fn found(pod: &str, labels: Option<&[(&str, &str)]>) -> String {
        let labels = labels.map(|labels| {
            PodLabels::choose(|key| {
                let mut labels = labels.iter();
                labels.find(|it| it.0 == key).map(|it| it.1)
            })
        });
        Workload::find(pod, labels.as_ref()).map_or_else(String::new, |it| {
            format!("{} {}, {}", it.kind, it.name, it.source)
        })
    }

    const JOB: [(&str, &str); 2] = [
        ("batch.kubernetes.io/controller-uid", "7d3c1f2e"),
        ("job-name", "import"),
    ];

    #[test]
    fn labels_and_name_show_each_kind() {
        let revision = ("controller-revision-hash", "cache-6d4cf56db6");
        let uid = JOB[0];
        for (pod, labels, expected) in [
            (
                "web-6d4cf56db6-x2k8p",
                vec![("pod-template-hash", "6d4cf56db6"), ("app", "web")],
                "Deployment web, labels",
            ),
            // a short hash is one of labels
            (
                "a-b-c4-x2k8p",
                vec![("pod-template-hash", "c4")],
                "Deployment a-b, labels",
            ),
            (
                "cache-12",
                vec![("statefulset.kubernetes.io/pod-name", "cache-12"), revision],
                "StatefulSet cache, labels",
            ),
            (
                "node-exporter-x2k8p",
                vec![
                    ("controller-revision-hash", "5d69b7cfd9"),
                    ("pod-template-generation", "3"),
                ],
                "DaemonSet node-exporter, labels",
            ),
            ("import-x2k8p", JOB.to_vec(), "Job import, labels"),
            // an indexed Job
            ("import-3-x2k8p", JOB.to_vec(), "Job import, labels"),
            (
                "backup-29664240-x2k8p",
                vec![uid, ("batch.kubernetes.io/job-name", "backup-29664240")],
                "CronJob backup, job_name",
            ),
            // a date, and a number of no minutes
            (
                "import-20261128-x2k8p",
                vec![uid, ("job-name", "import-20261128")],
                "Job import-20261128, labels",
            ),
        ] {
            assert_eq!(found(pod, Some(&labels)), expected);
        }
    }

    #[test]
    fn long_names_that_were_cut_show_what_the_labels_have() {
        let job = "j".repeat(63);
        for begin in [&job[..58], &format!("{}-1-", &job[..55])] {
            let pod = format!("{begin}x2k8p");
            let found = found(&pod, Some(&[JOB[0], ("job-name", &job)]));
            assert_eq!(found, format!("Job {job}, labels"));
        }
        let daemon = format!("{}-x2k8p", "d".repeat(57));
        let labels = [
            ("controller-revision-hash", "5d69b7cfd9"),
            ("pod-template-generation", "3"),
        ];
        assert_eq!(found(&daemon, Some(&labels)), "");
        assert_eq!(
            found(&daemon[1..], Some(&labels)),
            format!("DaemonSet {}, labels", "d".repeat(56))
        );
    }

    #[test]
    fn labels_that_do_not_fit_the_name_show_none() {
        for (pod, labels) in [
            ("web-6d4cf56db6-x2k8p", vec![]),
            (
                "web-6d4cf56db6-x2k8p",
                vec![("pod-template-hash", "5d69b7cfd9")],
            ),
            ("web", vec![("pod-template-hash", "6d4cf56db6")]),
            // a ReplicaSet or a pod of a user's
            ("web-x2k8p", vec![("app", "web")]),
            (
                "cache-0",
                vec![("statefulset.kubernetes.io/pod-name", "cache-0")],
            ),
            (
                "cache-0",
                vec![
                    ("statefulset.kubernetes.io/pod-name", "cache-1"),
                    ("controller-revision-hash", "cache-6d4cf56db6"),
                ],
            ),
            ("import-x2k8p", vec![("job-name", "import")]),
            ("other-x2k8p", JOB.to_vec()),
            ("import-x2k8p", vec![JOB[0], ("job-name", "im\u{1b}[2J")]),
        ] {
            assert_eq!(found(pod, Some(&labels)), "", "{pod}");
        }
    }

    #[test]
    fn name_alone_shows_a_deployment_only() {
        for (pod, expected) in [
            ("web-6d4cf56db6-x2k8p", "Deployment web, pod_name"),
            ("shop-web-775855699b-zt5wq", "Deployment shop-web, pod_name"),
            // digits of other names, above 32 bits, a zero first, too short, no random end
            ("web-6d4cf56da6-x2k8p", ""),
            ("web-8888888888-x2k8p", ""),
            ("web-4d4cf56db6-x2k8p", ""),
            ("web-bcd-x2k8p", ""),
            ("web-6d4cf56db6-redis", ""),
            ("6d4cf56db6-x2k8p", ""),
            ("node-exporter-x2k8p", ""),
            ("cache-0", ""),
            ("web", ""),
        ] {
            assert_eq!(found(pod, None), expected, "{pod}");
        }
    }
}
