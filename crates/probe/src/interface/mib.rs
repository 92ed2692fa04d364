//! Counters of network namespaces (`/proc/PID/net/netstat`), for the programs to read: which they
//! are in this kernel, and where each CPU keeps its own.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;

/// Places of counters in `struct linux_mib`. They differ between kernels; its BTF says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MibPlaces {
    pub(crate) listen_overflows: u32,
    pub(crate) syncookies_received: u32,
}

impl MibPlaces {
    /// Reads which counters this kernel has; `None` if its types do not show that.
    pub(crate) fn from_btf(btf: &Btf<'_>) -> Option<Self> {
        btf.type_by_kind::<Enum<'_>>()
            .filter(|found| found.name().is_none())
            .find_map(|found| {
                let members = found
                    .iter()
                    .filter_map(|member| Some((member.name?.to_str()?, member.value)));
                Self::among(members)
            })
    }

    /// Finds the counters among the members of the kernel's enum; 0 is no counter.
    fn among<'a>(members: impl Iterator<Item = (&'a str, i64)>) -> Option<Self> {
        let (mut listen_overflows, mut syncookies_received) = (None, None);
        for (name, value) in members {
            let place = u32::try_from(value).ok().filter(|place| *place > 0);
            match name {
                "LINUX_MIB_LISTENOVERFLOWS" => listen_overflows = place,
                "LINUX_MIB_SYNCOOKIESRECV" => syncookies_received = place,
                _ => {}
            }
        }
        Some(Self {
            listen_overflows: listen_overflows?,
            syncookies_received: syncookies_received?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_name() {
        let members = [
            ("LINUX_MIB_NUM", 0),
            ("LINUX_MIB_SYNCOOKIESRECV", 2),
            ("LINUX_MIB_LISTENOVERFLOWS", 23),
            ("LINUX_MIB_LISTENDROPS", 24),
        ];
        let places = MibPlaces {
            listen_overflows: 23,
            syncookies_received: 2,
        };
        assert_eq!(MibPlaces::among(members.into_iter()), Some(places));
    }

    #[test]
    fn missing_counters_are_not_read() {
        let only_one = [("LINUX_MIB_LISTENOVERFLOWS", 23)];
        assert_eq!(MibPlaces::among(only_one.into_iter()), None);
        for wrong in [0, -1, i64::MAX] {
            let members = [
                ("LINUX_MIB_LISTENOVERFLOWS", wrong),
                ("LINUX_MIB_SYNCOOKIESRECV", 2),
            ];
            assert_eq!(MibPlaces::among(members.into_iter()), None);
        }
        assert_eq!(MibPlaces::among(std::iter::empty()), None);
    }

    #[test]
    fn this_kernel_has_places() {
        let Ok(btf) = Btf::from_vmlinux() else {
            eprintln!("skipped: this kernel has no BTF");
            return;
        };
        let begun = std::time::Instant::now();
        let places = MibPlaces::from_btf(&btf).expect("places");
        eprintln!("{places:?} in {:?}", begun.elapsed());
        assert!(places.listen_overflows > places.syncookies_received);
    }
}
