//! Little-endian numbers in a byte slice: `None` past its end.

/// A reader of a record's fields, one after another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldReader<'a>(pub(crate) &'a [u8]);

impl<'a> FieldReader<'a> {
    /// Reads the next two bytes as a number.
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.read_array().map(u16::from_le_bytes)
    }

    /// Reads the next four bytes as a number.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.read_array().map(u32::from_le_bytes)
    }

    /// Reads the next eight bytes as a number.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.read_array().map(u64::from_le_bytes)
    }

    /// Skips bytes; `None` if too few are left.
    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    /// Returns a text that ends with a zero, or with the record.
    pub(crate) fn text(self) -> String {
        let bytes = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Reads the next bytes; None if too few are left.
    fn read_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
}
