//! Values of counters, metadata and histograms, with the type that the program gave them.

use std::ffi::c_int;

/// Type of a value, as `__itt_metadata_type` numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// Unsigned, 64 bits.
    U64 = 1,
    /// Signed, 64 bits.
    S64 = 2,
    /// Unsigned, 32 bits.
    U32 = 3,
    /// Signed, 32 bits.
    S32 = 4,
    /// Unsigned, 16 bits.
    U16 = 5,
    /// Signed, 16 bits.
    S16 = 6,
    /// Floating point, 32 bits.
    F32 = 7,
    /// Floating point, 64 bits.
    F64 = 8,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Unsigned, 64 bits.
    U64(u64),
    /// Signed, 64 bits.
    S64(i64),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Signed, 32 bits.
    S32(i32),
    /// Unsigned, 16 bits.
    U16(u16),
    /// Signed, 16 bits.
    S16(i16),
    /// Floating point, 32 bits.
    F32(f32),
    /// Floating point, 64 bits.
    F64(f64),
}

impl ValueType {
    const ALL: [ValueType; 8] = [
        ValueType::U64,
        ValueType::S64,
        ValueType::U32,
        ValueType::S32,
        ValueType::U16,
        ValueType::S16,
        ValueType::F32,
        ValueType::F64,
    ];

    /// Makes the type of an ITT number; none for `__itt_metadata_unknown` and what is not known here.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        Self::ALL.get(index).copied()
    }

    /// Returns the ITT number of a type as a byte; 0 (unknown) for other numbers.
    pub(crate) fn byte_of(number: c_int) -> u8 {
        let known = u64::try_from(number).ok().and_then(Self::from_number);
        known.map_or(0, |known| known as u8)
    }

    /// Returns the size of such a value in the program's memory, in bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            ValueType::U64 | ValueType::S64 | ValueType::F64 => 8,
            ValueType::U32 | ValueType::S32 | ValueType::F32 => 4,
            ValueType::U16 | ValueType::S16 => 2,
        }
    }

    /// Returns the bits of the value at an address, as a word of a record.
    ///
    /// # Safety
    ///
    /// A value of this type is there. It need not be aligned.
    #[inline(always)]
    pub(crate) unsafe fn read(self, address: *const u8) -> u64 {
        // SAFETY: the caller promises that many bytes at this address.
        unsafe {
            match self.bytes() {
                8 => address.cast::<u64>().read_unaligned(),
                4 => u64::from(address.cast::<u32>().read_unaligned()),
                _ => u64::from(address.cast::<u16>().read_unaligned()),
            }
        }
    }

    /// Returns the value that a word of a record has. Bits above the type's own are ignored.
    pub(crate) fn value(self, bits: u64) -> Value {
        match self {
            ValueType::U64 => Value::U64(bits),
            ValueType::S64 => Value::S64(bits as i64),
            ValueType::U32 => Value::U32(bits as u32),
            ValueType::S32 => Value::S32(bits as i32),
            ValueType::U16 => Value::U16(bits as u16),
            ValueType::S16 => Value::S16(bits as i16),
            ValueType::F32 => Value::F32(f32::from_bits(bits as u32)),
            ValueType::F64 => Value::F64(f64::from_bits(bits)),
        }
    }
}

impl Value {
    /// Returns the value as a number for a plot. Integers above 2^53 are rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::U64(value) => value as f64,
            Value::S64(value) => value as f64,
            Value::U32(value) => f64::from(value),
            Value::S32(value) => f64::from(value),
            Value::U16(value) => f64::from(value),
            Value::S16(value) => f64::from(value),
            Value::F32(value) => f64::from(value),
            Value::F64(value) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_itt() {
        for (index, value_type) in ValueType::ALL.into_iter().enumerate() {
            assert_eq!(value_type as usize, index + 1);
            assert_eq!(ValueType::from_number(index as u64 + 1), Some(value_type));
        }
        assert_eq!(ValueType::from_number(0), None);
        assert_eq!(ValueType::from_number(9), None);
    }

    #[test]
    fn a_negative_short_stays_negative() {
        let value = -7i16;
        // SAFETY: the value lives on the stack.
        let bits = unsafe { ValueType::S16.read((&raw const value).cast()) };
        assert_eq!(ValueType::S16.value(bits), Value::S16(-7));
    }
}
