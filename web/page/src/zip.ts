// A ZIP archive of files as they are: weights hardly shrink.

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n >>> 0;
});

/** The bytes that are read at a time. */
const PART = 1 << 22;

async function crc32(file: Blob): Promise<number> {
  let crc = 0xffffffff;
  for (let at = 0; at < file.size; at += PART) {
    for (const byte of new Uint8Array(await file.slice(at, at + PART).arrayBuffer())) {
      crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 255]!;
    }
  }
  return ~crc >>> 0;
}

function fields(...list: [bytes: 2 | 4, value: number][]): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(list.reduce((sum, [bytes]) => sum + bytes, 0)));
  let at = 0;
  for (const [bytes, value] of list) {
    if (bytes === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += bytes;
  }
  return new Uint8Array(view.buffer);
}

/** Makes an archive of files of less than 4 GB. */
export async function zip(files: { name: string; content: Blob }[]): Promise<Blob> {
  const parts: BlobPart[] = [];
  const directory: BlobPart[] = [];
  let at = 0;
  let directoryBytes = 0;
  for (const { name, content } of files) {
    const text = new TextEncoder().encode(name);
    // Version 2.0, names in UTF-8, stored, at the first day of the format.
    const common: [2 | 4, number][] = [
      [2, 20], [2, 0x0800], [2, 0], [2, 0], [2, 0x21], [4, await crc32(content)], [4, content.size], [4, content.size],
      [2, text.length], [2, 0],
    ];
    const head = fields([4, 0x04034b50], ...common);
    const entry = fields([4, 0x02014b50], [2, 20], ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, at]);
    parts.push(head, text, content);
    directory.push(entry, text);
    at += head.length + text.length + content.size;
    directoryBytes += entry.length + text.length;
  }
  const end = fields([4, 0x06054b50], [2, 0], [2, 0], [2, files.length], [2, files.length], [4, directoryBytes], [4, at], [2, 0]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}
