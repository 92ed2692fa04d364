//! Pods of Kubernetes, as containers' annotations and control groups name them.
//!
//! ```text
//! containerd  io.kubernetes.cri.sandbox-namespace, -name, -uid; io.kubernetes.cri.container-name
//! CRI-O       io.kubernetes.pod.namespace, .name, .uid; io.kubernetes.container.name
//! cri-dockerd the same as CRI-O, as labels
//! cgroupfs    /kubepods/burstable/podUID/ID
//! systemd     /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope
//! ```

use std::fmt;

use serde_json::Value;

/// Longest name of a pod: a DNS subdomain (RFC 1123; `DNS1123SubdomainMaxLength` of Kubernetes).
const SUBDOMAIN_BYTES: usize = 253;
/// Longest name of a namespace or a container: a DNS label (`DNS1123LabelMaxLength`).
const LABEL_BYTES: usize = 63;
/// Digits of a pod's UID without dashes: a UUID, or of static pods an MD5.
const UID_DIGITS: usize = 32;
/// Part of the name of each control group that the kubelet makes above pods.
const TREE: &str = "kubepods";

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; `None` where the runtime does not write it.
    pub uid: Option<String>,
}

impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Keys of a pod's namespace, name and UID.
pub(super) struct PodKeys([&'static str; 3]);

pub(super) const CONTAINERD: PodKeys = PodKeys([
    "io.kubernetes.cri.sandbox-namespace",
    "io.kubernetes.cri.sandbox-name",
    "io.kubernetes.cri.sandbox-uid",
]);

/// Those of CRI-O and cri-dockerd, which are the kubelet's.
pub(super) const KUBELET: PodKeys = PodKeys([
    "io.kubernetes.pod.namespace",
    "io.kubernetes.pod.name",
    "io.kubernetes.pod.uid",
]);

impl PodKeys {
    /// Returns the name of the pod alone, which older runtimes write without its namespace.
    pub(super) fn name<'a>(&self, annotations: &'a Value) -> Option<&'a str> {
        subdomain(annotations[self.0[1]].as_str()?)
    }

    /// Returns the pod that a container's annotations name; `None` if Kubernetes does not allow such a name.
    pub(super) fn read(&self, annotations: &Value) -> Option<Pod> {
        let [namespace, name, uid] = self.0.map(|key| annotations[key].as_str());
        Pod::from_names(namespace?, name?, uid)
    }
}

impl Pod {
    /// Returns the pod with these names; `None` if Kubernetes does not allow them.
    pub(super) fn from_names(namespace: &str, name: &str, uid: Option<&str>) -> Option<Self> {
        Some(Self {
            namespace: label(namespace)?.to_owned(),
            name: subdomain(name)?.to_owned(),
            uid: uid.and_then(uid_digits),
        })
    }

    /// Returns whether both are one pod, as far as their UIDs are known.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let uids = self.uid.as_ref().zip(other.uid.as_ref());
        let has_names = self.namespace == other.namespace && self.name == other.name;
        has_names && uids.is_none_or(|(own, other)| own == other)
    }
}

/// Returns the text if it may name a container or namespace (RFC 1123); else `None`.
pub(super) fn label(text: &str) -> Option<&str> {
    subdomain(text).filter(|text| text.len() <= LABEL_BYTES && !text.contains('.'))
}

/// Returns a name that Kubernetes allows.
pub(super) fn subdomain(text: &str) -> Option<&str> {
    let is_part = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let is_name = (1..=SUBDOMAIN_BYTES).contains(&text.len()) && text.bytes().all(is_part);
    is_name.then_some(text)
}

/// Returns a UID without dashes, which systemd's names have as underscores.
fn uid_digits(text: &str) -> Option<String> {
    let mut digits = text.to_owned();
    digits.retain(|digit| !matches!(digit, '-' | '_'));
    let is_uid = digits.len() == UID_DIGITS
        && digits
            .bytes()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_uid.then_some(digits)
}

/// Returns the control group of a pod in the path of one below it, and the pod's UID.
pub(super) fn pod_group(path: &str) -> Option<(&str, String)> {
    let mut end = 0;
    let mut is_in_tree = false;
    for part in path.split('/') {
        end += part.len() + 1;
        is_in_tree |= part.contains(TREE);
        if let Some(uid) = is_in_tree.then(|| uid_in(part)).flatten() {
            return Some((&path[..end - 1], uid));
        }
    }
    None
}

/// Returns the UID in the name of a pod's control group.
fn uid_in(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    uid_digits(&name[name.rfind("pod")? + "pod".len()..])
}

/// Returns the UID of the pod that a container's control group names, also where pod and container share one:
/// `kubepods-podUID.slice:cri-containerd:ID`, which a runtime makes that is set for systemd where none runs.
pub(super) fn uid_of_group(path: &str) -> Option<String> {
    let shared = |part: &str| {
        let (pod, _) = part.split_once(':')?;
        pod.contains(TREE).then(|| uid_in(pod)).flatten()
    };
    pod_group(path)
        .map(|(_, uid)| uid)
        .or_else(|| path.split('/').find_map(shared))
}

/// Returns the UID of a pod as its control group has it, with dashes where it has dashes or, by systemd, underscores.
pub fn pod_uid(path: &str) -> Option<String> {
    let digits = uid_of_group(path)?;
    let mut begins = path.match_indices("pod").map(|(at, _)| at + "pod".len());
    begins.find_map(|begin| {
        let is_uid = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_');
        let rest = &path[begin..];
        let end = rest
            .bytes()
            .position(|byte| !is_uid(byte))
            .unwrap_or(rest.len());
        let text = &rest[..end];
        (uid_digits(text)? == digits).then(|| text.replace('_', "-"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "7d3c1f2e-5a64-4b1c-9c37-0f1e2d3c4b5a";

    #[test]
    fn control_groups_of_either_driver_name_the_pod() {
        let underscores = UID.replace('-', "_");
        let digits = UID.replace('-', "");
        for (group, below) in [
            (format!("/kubepods/burstable/pod{UID}"), "/ID/init"),
            (format!("/kubepods/pod{digits}"), ""),
            (
                format!(
                    "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{underscores}.slice"
                ),
                "/cri-containerd-ID.scope",
            ),
            (
                format!(
                    "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{underscores}.slice"
                ),
                "/crio-ID.scope",
            ),
        ] {
            let path = format!("{group}{below}");
            assert_eq!(pod_group(&path), Some((group.as_str(), digits.clone())));
            assert_eq!(uid_of_group(&path), Some(digits.clone()));
            let shown = match group.contains(&digits) {
                true => &digits,
                false => UID,
            };
            assert_eq!(pod_uid(&path).as_deref(), Some(shown));
        }
        let shared =
            format!("/system.slice/x.service/kubepods-pod{underscores}.slice:cri-containerd:ID");
        assert_eq!(
            (pod_group(&shared), uid_of_group(&shared)),
            (None, Some(digits))
        );
        for other in [
            format!("/tripod{UID}"),
            "/kubepods/podé".to_owned(),
            "/kubepods".to_owned(),
        ] {
            assert_eq!(uid_of_group(&other), None, "{other}");
        }
    }
}
