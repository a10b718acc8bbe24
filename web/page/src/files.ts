// Files that are dropped or chosen: one model, and its external data.

import type { Given } from "./messages.js";

/** The files of a drop, those in folders too. */
export async function dropped(transfer: DataTransfer): Promise<Given[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (!entries.length) return [...transfer.files].map((file) => ({ path: file.name, file }));
  return (await Promise.all(entries.map((entry) => below(entry, "")))).flat();
}

async function below(entry: FileSystemEntry, folder: string): Promise<Given[]> {
  const path = folder + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));
    return [{ path, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: Given[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return found;
    for (const child of some) found.push(...(await below(child, `${path}/`)));
  }
}

/** The files of an input element. */
export const chosen = (list: FileList): Given[] => [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));

/** The model among files: the one named so, or else the only or the first one. */
export function modelOf(files: Given[]): Given | undefined {
  return files.find(({ path }) => /\.onnx$/i.test(path)) ?? files.find(({ path }) => /\.(pb|ort|tflite|pt|pth|h5)$/i.test(path)) ?? files[0];
}

/** The dropped file at a location of external data: at the end of its path, or at least of that name. */
export function find(data: Given[], location: string): File | undefined {
  const wanted = location.replace(/^(\.\/)+/, "");
  const name = wanted.split("/").pop();
  const at = data.find(({ path }) => path === wanted || path.endsWith(`/${wanted}`)) ?? data.find(({ file }) => file.name === name);
  return at?.file;
}
