// The data in the page → header and bytes. Format: crates/view/src/html/mod.rs.

/** Header of the data, and the columns behind it. */
export interface PageData {
  header: unknown;
  columns: Uint8Array;
}

/** Decodes what the page holds. */
export async function unpack(base64: string): Promise<PageData> {
  const data = await inflate(bytesOf(base64));
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const length = view.getUint32(0, true);
  const header = new TextDecoder().decode(data.subarray(4, 4 + length));
  return { header: JSON.parse(header), columns: data.subarray(4 + length) };
}

type FromBase64 = { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as FromBase64).fromBase64;
  if (native) {
    return native.call(Uint8Array, base64);
  }
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) {
    bytes[at] = text.charCodeAt(at);
  }
  return bytes;
}

async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
