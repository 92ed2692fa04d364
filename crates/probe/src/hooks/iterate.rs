//! BPF iterators, run to their end: what they meet goes to rings, not to who reads them.

use libbpf_rs::{Iter, Link};

use crate::interface::HooksError;

/// Runs an iterator to its end; its programs write to rings.
pub(super) fn read_iterator(link: Option<&Link>, what: &'static str) -> Result<(), HooksError> {
    let Some(link) = link else {
        return Ok(());
    };
    let mut iter = Iter::new(link).map_err(|error| HooksError::Use {
        action: "iterate",
        error,
    })?;
    read_to_end(&mut iter).map_err(|error| HooksError::Read { what, error })
}

/// Reads to the end of an iterator without output, also after `EAGAIN`.
fn read_to_end(iter: &mut impl std::io::Read) -> std::io::Result<()> {
    loop {
        match std::io::copy(iter, &mut std::io::sink()) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An iterator that says nothing, and has its reader call again now and then.
    struct Again(u32);

    impl std::io::Read for Again {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    Err(std::io::ErrorKind::WouldBlock.into())
                }
                None => Ok(0),
            }
        }
    }

    #[test]
    fn iterator_over_millions_of_objects_is_read_to_its_end() {
        let mut iter = Again(3);
        read_to_end(&mut iter).unwrap();
        assert_eq!(iter.0, 0);
    }
}
