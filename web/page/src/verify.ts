// Verifies a net in a worker of its own: its memory is free when it ends, and the page can end it.

import { verify } from "onnx2ncnn";
import { find } from "./files.js";
import { messageOf, type Checked, type Subject } from "./messages.js";

const tell = (checked: Checked) => postMessage(checked);

addEventListener("message", ({ data }: MessageEvent<Subject>) => {
  const { model, param, bin, options } = data;
  verify(model.file, { param, bin }, options, { name: model.path, data: (location) => find(data.data, location) })
    .then((proof) => tell({ is: "verified", proof }), (error: unknown) => tell({ is: "failed", message: messageOf(error) }));
});
