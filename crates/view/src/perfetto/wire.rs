//! The protobuf wire format, as much of it as a trace takes (protobuf.dev/programming-guides/encoding).

/// Wire types.
const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const LENGTH: u32 = 2;

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct WireMessage {
    bytes: Vec<u8>,
}

impl WireMessage {
    /// Returns the bytes so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the message, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Writes a field of type `uint32`, `uint64`, `bool`, or an enum.
    pub(super) fn put_unsigned(&mut self, field: u32, value: u64) {
        self.write_tag(field, VARINT);
        self.varint(value);
    }

    /// Writes a field of type `int32` or `int64`: two's complement, not zigzag.
    pub(super) fn put_signed(&mut self, field: u32, value: i64) {
        self.put_unsigned(field, value.cast_unsigned());
    }

    /// Writes a field of type `fixed64`.
    pub(super) fn put_fixed(&mut self, field: u32, value: u64) {
        self.write_tag(field, FIXED_64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a field of type `double`.
    pub(super) fn double(&mut self, field: u32, value: f64) {
        self.put_fixed(field, value.to_bits());
    }

    /// Writes a field of type `string`.
    pub(super) fn text(&mut self, field: u32, value: &str) {
        self.write_tag(field, LENGTH);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// Writes a field with a message within this one.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.write_tag(field, LENGTH);
        let start = self.bytes.len();
        write(self);
        let length = (self.bytes.len() - start) as u64;
        // The length comes first, and is known last: it is written behind, and moved.
        self.varint(length);
        let moved = self.bytes.len() - start - length as usize;
        self.bytes[start..].rotate_right(moved);
    }

    /// Writes a field with another message; leaves out an empty one.
    pub(super) fn append(&mut self, field: u32, message: &Self) {
        if !message.bytes.is_empty() {
            self.write_tag(field, LENGTH);
            self.varint(message.bytes.len() as u64);
            self.bytes.extend_from_slice(&message.bytes);
        }
    }

    /// Writes number and type of a field.
    fn write_tag(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    /// Writes a number of variable length, seven bits a byte.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// Messages back to fields, for tests.
#[cfg(test)]
pub(super) mod read {
    /// Value of a field.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Value<'a> {
        /// A number, of eight bytes or of as many as it takes.
        Number(u64),
        Bytes(&'a [u8]),
    }

    /// Reads a number, and returns the bytes behind it.
    fn varint(bytes: &[u8]) -> (u64, &[u8]) {
        let length = bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1;
        let value = bytes[..length].iter().rev();
        let value = value.fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
        (value, &bytes[length..])
    }

    /// The fields of a message, in order.
    pub(crate) fn fields(mut bytes: &[u8]) -> Vec<(u32, Value<'_>)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let (tag, rest) = varint(bytes);
            let (value, rest) = match tag & 7 {
                0 => {
                    let (value, rest) = varint(rest);
                    (Value::Number(value), rest)
                }
                1 => {
                    let (value, rest) = rest.split_first_chunk().expect("eight bytes");
                    (Value::Number(u64::from_le_bytes(*value)), rest)
                }
                2 => {
                    let (length, rest) = varint(rest);
                    let (value, rest) = rest.split_at(length as usize);
                    (Value::Bytes(value), rest)
                }
                other => panic!("wire type {other}"),
            };
            fields.push(((tag >> 3) as u32, value));
            bytes = rest;
        }
        fields
    }

    /// Returns the messages of a field.
    pub(crate) fn messages(bytes: &[u8], field: u32) -> Vec<Vec<(u32, Value<'_>)>> {
        let fields = fields(bytes).into_iter();
        let messages = fields.filter_map(|(number, value)| match value {
            Value::Bytes(bytes) if number == field => Some(self::fields(bytes)),
            _ => None,
        });
        messages.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::read::{Value, fields};
    use super::*;

    /// Returns the bytes that `write` makes.
    fn written(write: impl FnOnce(&mut WireMessage)) -> Vec<u8> {
        let mut message = WireMessage::default();
        write(&mut message);
        message.bytes
    }

    /// The examples of the format's own description.
    #[test]
    fn examples_of_the_specification_are_written() {
        assert_eq!(written(|it| it.put_unsigned(1, 150)), [0x08, 0x96, 0x01]);
        let testing = [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67];
        assert_eq!(written(|it| it.text(2, "testing")), testing);
        let within = written(|it| it.message(3, |it| it.put_unsigned(1, 150)));
        assert_eq!(within, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let minus_two = [vec![0x08, 0xfe], vec![0xff; 8], vec![0x01]].concat();
        assert_eq!(written(|it| it.put_signed(1, -2)), minus_two);
    }

    #[test]
    fn numbers_of_eight_bytes_are_little_endian() {
        let bytes = [0xf9, 0x02, 8, 7, 6, 5, 4, 3, 2, 1];
        assert_eq!(written(|it| it.put_fixed(47, 0x0102_0304_0506_0708)), bytes);
        let one = [0xe1, 0x02, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
        assert_eq!(written(|it| it.double(44, 1.0)), one);
    }

    proptest! {
        #[test]
        fn written_fields_are_read_back(
            field in 1_u32..1 << 29, text in ".{0,300}", numbers in any::<[u64; 2]>(), real in any::<f64>(),
        ) {
            let bytes = written(|it| {
                it.message(field, |it| {
                    it.text(field, &text);
                    it.put_unsigned(field, numbers[0]);
                });
                it.put_fixed(field, numbers[1]);
                it.double(1, real);
            });
            let within = written(|it| {
                it.text(field, &text);
                it.put_unsigned(field, numbers[0]);
            });
            let outer = [
                (field, Value::Bytes(&within)),
                (field, Value::Number(numbers[1])),
                (1, Value::Number(real.to_bits())),
            ];
            prop_assert_eq!(fields(&bytes), outer);
            let inner = [(field, Value::Bytes(text.as_bytes())), (field, Value::Number(numbers[0]))];
            prop_assert_eq!(fields(&within), inner);
        }
    }
}
