// As much of the protobuf wire format as the trace processor's protocol takes.

// The bytes of a number of seven bits a byte, lowest first.
function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 0x80n) return [...bytes, Number(rest)];
    bytes.push(Number(rest & 0x7fn) | 0x80);
  }
}

export function varintField(number, value) {
  return Uint8Array.from([...varint(number << 3), ...varint(value)]);
}

export function bytesField(number, bytes) {
  const head = [...varint((number << 3) | 2), ...varint(bytes.length)];
  const field = new Uint8Array(head.length + bytes.length);
  field.set(head);
  field.set(bytes, head.length);
  return field;
}

// A number, and where what follows it begins.
function readVarint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return [value, at];
  }
}

// The numbers of a packed field, as int64.
export function* packedVarints(bytes) {
  for (let at = 0; at < bytes.length;) {
    const [value, next] = readVarint(bytes, at);
    at = next;
    yield BigInt.asIntN(64, value);
  }
}

// The numbers of a packed field of doubles.
export function* packedDoubles(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length; at += 8) yield view.getFloat64(at, true);
}

// Every field of a message as its number and value: a BigInt, or bytes.
export function* decodeFields(bytes) {
  for (let at = 0; at < bytes.length;) {
    const [tag, after] = readVarint(bytes, at);
    const [number, wireType] = [Number(tag >> 3n), Number(tag & 7n)];
    if (wireType === 0) {
      const [value, next] = readVarint(bytes, after);
      yield [number, value];
      at = next;
    } else if (wireType === 1 || wireType === 5) {
      const size = wireType === 1 ? 8 : 4;
      yield [number, bytes.subarray(after, after + size)];
      at = after + size;
    } else if (wireType === 2) {
      const [length, begin] = readVarint(bytes, after);
      at = begin + Number(length);
      yield [number, bytes.subarray(begin, at)];
    } else {
      throw new Error(`field ${number} has the wire type ${wireType}, which nothing writes any more`);
    }
  }
}
