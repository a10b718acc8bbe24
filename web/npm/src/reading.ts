// Files that are read into the memory of a module.

/** Bytes in memory, or a file of the browser, which is read in parts. */
export type Bytes = Uint8Array | ArrayBuffer | Blob;

/** What is known of a file: its size, and its bytes in parts. */
export interface Source {
  size: number;
  parts(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** Receives how many bytes of how many were read. */
export type Progress = (read: number, of: number) => void;

/** What is not an option of the conversion. */
export interface Reading {
  /** The name of the model in reports. */
  name?: string;
  /** External data by their locations in the model. */
  data?: Record<string, Bytes | Source> | ((location: string) => Bytes | Source | undefined);
  progress?: Progress;
}

/** The bytes that are read at a time. */
const PART = 1 << 24;

/** A file in the memory of a module. */
interface Held {
  append(part: Uint8Array): void;
}

/** A model there. */
interface HeldModel<B> {
  dataLocations(): string[];
  addData(location: string, data: B): void;
}

/** The classes of a module that hold a model. */
interface Holding<B, M> {
  Buffer: new (size: number) => B;
  Model: new (name: string, model: B) => M;
}

/** Reads a file into the memory of a module. */
export async function hold<B extends Held>(module: Pick<Holding<B, unknown>, "Buffer">, source: Source, progress?: (bytes: number) => void): Promise<B> {
  const buffer = new module.Buffer(source.size);
  for await (const part of source.parts()) {
    buffer.append(part);
    progress?.(part.length);
  }
  return buffer;
}

/** Reads a model and those external data that are given, and returns the locations of the others. */
export async function read<B extends Held, M extends HeldModel<B>>(
  module: Holding<B, M>, model: Bytes | Source, { name = "", data = {}, progress }: Reading,
): Promise<{ opened: M; missing: string[] }> {
  const find = typeof data === "function" ? data : (location: string) => data[location];
  let [done, of] = [0, 0];
  const fill = (source: Source) => hold(module, source, (bytes) => progress?.((done += bytes), of));
  const main = sourceOf(model);
  of = main.size;
  const opened = new module.Model(name, await fill(main));
  const found: [string, Source][] = [];
  const missing: string[] = [];
  for (const location of opened.dataLocations()) {
    const bytes = find(location);
    if (bytes) found.push([location, sourceOf(bytes)]);
    else missing.push(location);
  }
  of = found.reduce((sum, [, source]) => sum + source.size, of);
  for (const [location, source] of found) opened.addData(location, await fill(source));
  return { opened, missing };
}

/** Returns what is known of bytes. */
export function sourceOf(bytes: Bytes | Source): Source {
  if ("parts" in bytes) return bytes;
  if (bytes instanceof Blob) return { size: bytes.size, parts: () => slices(bytes) };
  const whole = bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes);
  return { size: whole.length, parts: () => [whole] };
}

async function* slices(file: Blob): AsyncIterable<Uint8Array> {
  for (let at = 0; at < file.size; at += PART) yield new Uint8Array(await file.slice(at, at + PART).arrayBuffer());
}
