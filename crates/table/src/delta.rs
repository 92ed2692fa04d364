//! Parquet's DELTA_BINARY_PACKED encoding: integers in, packed differences out.
//!
//! The general encoders of the `parquet` crate cost several times what the recorder can
//! afford for a socket call, and plain values cost more in hashing and writing than they
//! save in packing. This one packs 32 values at a time at a width known to the compiler.
//! The tests read its output back with the `parquet` crate.

/// Values in a block; the format wants a multiple of 128.
const BLOCK: usize = 128;
/// Values packed at one width; the format wants a multiple of 32.
const MINIBLOCK: usize = 32;
/// Miniblocks in a block.
const MINIBLOCKS: usize = BLOCK / MINIBLOCK;

/// A physical integer of Parquet. Differences wrap around, as readers' sums do.
pub(crate) trait Integer: Copy + Default {
    /// Returns `self - earlier`, wrapping.
    fn difference(self, earlier: Self) -> Self;
    /// Returns how far `self` lies above `least`.
    fn above(self, least: Self) -> u64;
    /// Returns the smaller of two numbers.
    fn least(self, other: Self) -> Self;
    /// Returns the number, sign-extended to 64 bits.
    fn wide(self) -> i64;
}

impl Integer for i64 {
    #[inline]
    fn difference(self, earlier: Self) -> Self {
        self.wrapping_sub(earlier)
    }
    #[inline]
    fn above(self, least: Self) -> u64 {
        self.wrapping_sub(least) as u64
    }
    #[inline]
    fn least(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline]
    fn wide(self) -> i64 {
        self
    }
}

impl Integer for i32 {
    #[inline]
    fn difference(self, earlier: Self) -> Self {
        self.wrapping_sub(earlier)
    }
    #[inline]
    fn above(self, least: Self) -> u64 {
        u64::from(self.wrapping_sub(least) as u32)
    }
    #[inline]
    fn least(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline]
    fn wide(self) -> i64 {
        i64::from(self)
    }
}

/// Appends the encoding of `values` to `out`.
pub(crate) fn encode<T: Integer>(values: &[T], out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint(MINIBLOCKS as u64, out);
    varint(values.len() as u64, out);
    let Some((&first, rest)) = values.split_first() else {
        varint(0, out);
        return;
    };
    zigzag(first.wide(), out);
    let mut earlier = first;
    for block in rest.chunks(BLOCK) {
        encode_block(earlier, block, out);
        earlier = block[block.len() - 1];
    }
}

/// Encodes one block: least difference, a width for each miniblock, packed miniblocks. Past the last
/// value the differences are the least one, so that they pack to nothing.
fn encode_block<T: Integer>(earlier: T, block: &[T], out: &mut Vec<u8>) {
    let mut differences = [T::default(); BLOCK];
    differences[0] = block[0].difference(earlier);
    for ((difference, &value), &before) in differences[1..].iter_mut().zip(&block[1..]).zip(block) {
        *difference = value.difference(before);
    }
    let last = differences[block.len() - 1];
    differences[block.len()..].fill(last);
    let least = least_of(&differences);
    differences[block.len()..].fill(least);
    zigzag(least.wide(), out);
    let widths_at = out.len();
    out.extend_from_slice(&[0; MINIBLOCKS]);
    for (index, mini) in differences.as_chunks::<MINIBLOCK>().0.iter().enumerate() {
        let mut above = [0u64; MINIBLOCK];
        let mut union = 0;
        for (above, difference) in above.iter_mut().zip(mini) {
            *above = difference.above(least);
            union |= *above;
        }
        let width = 64 - union.leading_zeros() as usize;
        out[widths_at + index] = width as u8;
        pack(&above, width, out);
    }
}

/// Returns the least number of a block, computed in four independent chains.
fn least_of<T: Integer>(values: &[T; BLOCK]) -> T {
    let mut least = [values[0]; 4];
    for four in values.as_chunks::<4>().0 {
        for (least, &value) in least.iter_mut().zip(four) {
            *least = least.least(value);
        }
    }
    least[0].least(least[1]).least(least[2].least(least[3]))
}

/// Appends an unsigned number as LEB128.
pub(crate) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number as LEB128 of its zigzag form.
fn zigzag(value: i64, out: &mut Vec<u8>) {
    varint(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Packs 32 values of `WIDTH` bits, lowest bit first. Spelt out for each value, because a loop
/// keeps its shifts variable and costs twice as much.
fn pack_width<const WIDTH: usize>(values: &[u64; MINIBLOCK], out: &mut Vec<u8>) {
    let mut words = [0u64; MINIBLOCK + 1];
    macro_rules! place {
        ($($index:literal)+) => {$(
            let bit = $index * WIDTH;
            words[bit / 64] |= values[$index] << (bit % 64);
            if bit % 64 + WIDTH > 64 {
                words[bit / 64 + 1] |= values[$index] >> (64 - bit % 64);
            }
        )+};
    }
    place! {
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    }
    let mut packed = [0u8; MINIBLOCK * 8];
    for (bytes, word) in packed.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    out.extend_from_slice(&packed[..MINIBLOCK * WIDTH / 8]);
}

/// Calls [`pack_width`] with a width known to the compiler.
fn pack(values: &[u64; MINIBLOCK], width: usize, out: &mut Vec<u8>) {
    macro_rules! widths {
        ($($width:literal)+) => {
            match width {
                $($width => pack_width::<$width>(values, out),)+
                _ => {}
            }
        };
    }
    widths! {
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
        62 63 64
    }
}

/// Returns the sum of at most `most` encoded 32-bit numbers; `None` if they are cut off, more, or
/// one is negative.
pub(crate) fn sum(bytes: &[u8], most: u64) -> Option<u64> {
    let mut left = EncodedValues(bytes);
    let block = left.varint()?;
    let miniblocks = left.varint()?;
    let mut count = left.varint()?;
    let mut value = left.zigzag()? as i32;
    let miniblock = block.checked_div(miniblocks)?;
    if count > most || miniblock == 0 || !miniblock.is_multiple_of(MINIBLOCK as u64) {
        return None;
    }
    if count == 0 {
        return Some(0);
    }
    count -= 1;
    let mut total = u64::try_from(value).ok()?;
    while count > 0 {
        let least = left.zigzag()? as i32;
        for width in left.take(miniblocks)? {
            let (values, width) = (count.min(miniblock), u64::from(*width));
            if values == 0 {
                break;
            }
            let packed = left.take(miniblock.checked_mul(width)? / 8)?;
            for index in 0..values {
                let above = unpack(packed, index, width)?;
                value = value.wrapping_add(least).wrapping_add(above);
                total = total.saturating_add(u64::try_from(value).ok()?);
            }
            count -= values;
        }
    }
    Some(total)
}

/// Returns one packed value of `width` bits; `None` for more than 32 bits.
fn unpack(packed: &[u8], index: u64, width: u64) -> Option<i32> {
    let mask = match width {
        0 => return Some(0),
        1..=32 => u64::MAX >> (64 - width),
        _ => return None,
    };
    let bit = index * width;
    let from = packed.get(usize::try_from(bit / 8).ok()?..)?;
    // 32 bits lie in five bytes
    let bytes = from.iter().take(5).zip((0..).step_by(8));
    let word = bytes.fold(0, |word, (byte, shift)| word | u64::from(*byte) << shift);
    Some((word >> (bit % 8) & mask) as i32)
}

/// The bytes left to read.
struct EncodedValues<'a>(&'a [u8]);

impl<'a> EncodedValues<'a> {
    /// Returns the next bytes, and goes on behind them; None if too few are left.
    fn take(&mut self, bytes: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(bytes).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a number of variable length (LEB128); None if it is cut off.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a number with a sign, as zigzag code; None if it is cut off.
    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_sums_match_encoded_values() {
        let long: Vec<i32> = (0..1000).map(|at| at * at % 4099).collect();
        for values in [&[][..], &[7], &[0; 129], &[i32::MAX; 300], &long] {
            let mut bytes = Vec::new();
            encode(values, &mut bytes);
            let expected = values.iter().map(|value| *value as u64).sum();
            let number = values.len() as u64;
            assert_eq!(sum(&bytes, number), Some(expected));
            assert_eq!(sum(&bytes, number.saturating_sub(1)).is_none(), number > 0);
            for cut in 0..bytes.len() {
                assert_eq!(sum(&bytes[..cut], number), None, "{cut} of {number}");
            }
        }
        let mut bytes = Vec::new();
        encode(&[5, -1, 5], &mut bytes);
        assert_eq!(sum(&bytes, 3), None);
    }

    #[test]
    fn invalid_deltas_are_refused() {
        // no miniblocks; of no multiple of 32; wider than 32 bits; more than are wanted
        for bytes in [
            &[128u8, 1, 0, 2, 0, 0][..],
            &[128, 1, 5, 2, 0, 0, 0, 0, 0, 0, 0],
            &[128, 1, 4, 2, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[128, 1, 4, 255, 255, 255, 255, 15, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(sum(bytes, 1 << 20), None, "{bytes:?}");
        }
    }
}
