// The network as a graph on a canvas: only the visible part is drawn.

const canvas = byId("canvas"), stage = byId("stage");
const FONT = getComputedStyle(document.documentElement).fontFamily;
const MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';
const BOX = { h: 58, min: 96, max: 236, pad: 12, dot: 10 };
const ZOOM = { least: 0.02, most: 3, step: 1.3, words: 0.38, names: 0.55 };

const pen = canvas.getContext("2d");
const view = { x: 0, y: 0, scale: 1 };
let colors = {}, drawing = null, boxes = [], edges = [], chosen = -1, marked = new Set(), frame = 0;

// Layers, or nodes, and an end for each output.
function makeBoxes() {
  pen.font = "600 13px " + FONT;
  boxes = layers.map((layer) => {
    if (net && layer.type === "Split") return { w: BOX.dot, h: BOX.dot, kind: "move", dot: true };
    const title = layer.type, extra = summaryOf(layer);
    return { title, extra, name: show(layer.name), shape: layer.shapes.length ? sizesOf(layer.shapes[0]) : "", kind: layer.refused ? "bad" : kindOf(layer.type), refused: layer.refused,
      given: layer.type === "Input" };
  });
  edges = [];
  layers.forEach((layer, i) => {
    for (const blob of layer.bottoms) if (producers.has(blob)) edges.push([producers.get(blob), i]);
  });
  for (const port of outputs) {
    if (!producers.has(port.blob)) continue;
    edges.push([producers.get(port.blob), boxes.length]);
    boxes.push({ title: "Output", extra: "", name: show(port.blob), shape: port.sizes, kind: "end", output: true });
  }
  const width = (font, text) => { pen.font = font; return pen.measureText(text).width; };
  for (const box of boxes.filter((box) => !box.dot)) {
    const head = width("600 13px " + FONT, box.title) + (box.extra ? 7 + width("13px " + FONT, box.extra) : 0);
    const wide = Math.max(head, width("11px " + MONO, box.name), width("11px " + FONT, box.shape));
    box.w = Math.round(Math.min(BOX.max, Math.max(BOX.min, wide + 2 * BOX.pad + 4)));
    box.h = BOX.h;
    box.name = fit(box.name, "11px " + MONO, box.w - 2 * BOX.pad);
  }
}

// The end of a name is more specific than its beginning.
function fit(text, font, room) {
  pen.font = font;
  if (pen.measureText(text).width <= room) return text;
  const chars = Array.from(text);
  const each = Math.max(1, pen.measureText("\u2026" + text).width / (chars.length + 1));
  let kept = Math.min(chars.length, Math.ceil(room / each) + 4);
  let short = text;
  do { short = "\u2026" + chars.slice(chars.length - kept).join(""); kept--; }
  while (kept > 0 && pen.measureText(short).width > room);
  return short;
}

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["back", "panel", "text", "muted", "line", "edge", "accent", "mark", "product", "activation", "norm", "pool", "arithmetic", "move", "end", "other", "bad"];
  colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
}

// Whether the stage has another size, which clears it.
function resize() {
  const ratio = window.devicePixelRatio || 1, { width, height } = stage.getBoundingClientRect();
  const [w, h] = [width, height].map((size) => Math.max(1, Math.round(size * ratio)));
  if (canvas.width === w && canvas.height === h) return false;
  canvas.width = w;
  canvas.height = h;
  return true;
}

function redraw() {
  if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); });
}

// The first row that ends below a height.
function rowAt(y) {
  let low = 0, high = drawing.bands.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (drawing.bands[middle].bottom < y) low = middle + 1; else high = middle;
  }
  return low;
}

function draw() {
  if (!drawing) return;
  const ratio = window.devicePixelRatio || 1, width = canvas.width / ratio, height = canvas.height / ratio;
  const sight = { left: -view.x / view.scale, right: (width - view.x) / view.scale, top: -view.y / view.scale, bottom: (height - view.y) / view.scale };
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.translate(view.x, view.y);
  pen.scale(view.scale, view.scale);
  // A wire begins at most in the row above the first visible one.
  const first = Math.max(0, rowAt(sight.top) - 1);
  let last = first;
  while (last < drawing.bands.length && drawing.bands[last].top <= sight.bottom) last++;
  drawWires(first, last, sight);
  let drawn = 0;
  for (let r = first; r < last; r++) {
    for (const id of drawing.bands[r].boxes) {
      const { x, y } = drawing.centers[id], box = boxes[id];
      if (x + box.w / 2 < sight.left || x - box.w / 2 > sight.right || y + box.h / 2 < sight.top) continue;
      drawBox(id, box, x, y);
      drawn++;
    }
  }
  canvas.dataset.drawn = drawn;
}

function trace(line) {
  pen.moveTo(line.x0, line.y0);
  const bend = Math.abs(line.x1 - line.x0) < 0.5;
  if (bend) pen.lineTo(line.x1, line.y1);
  else {
    const half = (line.y0 + line.y1) / 2;
    pen.bezierCurveTo(line.x0, half, line.x1, half, line.x1, line.y1);
  }
  if (line.through !== line.y1) pen.lineTo(line.x1, line.through);
}

function drawWires(first, last, sight) {
  const thick = Math.max(1.2, 0.8 / view.scale);
  pen.lineWidth = thick;
  pen.strokeStyle = colors.edge;
  pen.beginPath();
  for (let r = first; r < last; r++) {
    for (const i of drawing.bands[r].wires) {
      const line = drawing.lines[i];
      if (Math.max(line.x0, line.x1) < sight.left || Math.min(line.x0, line.x1) > sight.right) continue;
      trace(line);
    }
  }
  for (const i of drawing.far) {
    const line = drawing.lines[i];
    if (line.y0 <= sight.bottom && line.y1 >= sight.top) trace(line);
  }
  pen.stroke();
  if (chosen < 0) return;
  pen.lineWidth = 2.2 * Math.max(1, 0.6 / view.scale);
  pen.strokeStyle = colors.accent;
  pen.beginPath();
  edges.forEach(([from, to], i) => {
    if (from === chosen || to === chosen) drawing.paths[i].forEach((wire) => trace(drawing.lines[wire]));
  });
  pen.stroke();
}

function drawBox(id, box, x, y) {
  const left = x - box.w / 2, top = y - box.h / 2, color = colors[box.kind] || colors.other;
  const stands = id === chosen, found = marked.has(id);
  if (box.dot) {
    pen.fillStyle = stands ? colors.accent : found ? colors.mark : colors.edge;
    pen.beginPath();
    pen.arc(x, y, box.w / 2 * (stands || found ? 1.5 : 1), 0, 2 * Math.PI);
    pen.fill();
    return;
  }
  if (view.scale < ZOOM.words) {
    pen.fillStyle = stands ? colors.accent : found ? colors.mark : color;
    pen.fillRect(left, top, box.w, box.h);
    return;
  }
  pen.beginPath();
  pen.roundRect(left, top, box.w, box.h, box.output ? BOX.h / 2 : 8);
  pen.fillStyle = colors.panel;
  pen.fill();
  pen.save();
  pen.clip();
  pen.globalAlpha = 0.16;
  pen.fillStyle = color;
  pen.fillRect(left, top, box.w, 23);
  pen.globalAlpha = 1;
  pen.fillRect(left, top, 4, box.h);
  pen.restore();
  pen.lineWidth = stands || found || box.refused ? 2.6 : 1;
  pen.strokeStyle = stands ? colors.accent : found ? colors.mark : box.refused ? colors.bad : colors.line;
  pen.stroke();
  pen.textAlign = "left";
  pen.textBaseline = "alphabetic";
  pen.fillStyle = color;
  pen.font = "600 13px " + FONT;
  pen.fillText(box.title, left + BOX.pad, top + 16);
  if (box.extra) {
    const at = pen.measureText(box.title).width + 7;
    pen.fillStyle = colors.text;
    pen.font = "13px " + FONT;
    pen.fillText(box.extra, left + BOX.pad + at, top + 16);
  }
  if (view.scale < ZOOM.names) return;
  pen.fillStyle = colors.text;
  pen.font = "11px " + MONO;
  pen.fillText(box.name, left + BOX.pad, top + 37);
  pen.fillStyle = colors.muted;
  pen.font = "11px " + FONT;
  pen.fillText(box.shape, left + BOX.pad, top + 51);
}

function zoomTo(scale, atX, atY) {
  const next = Math.min(ZOOM.most, Math.max(ZOOM.least, scale));
  view.x = atX - (atX - view.x) * next / view.scale;
  view.y = atY - (atY - view.y) * next / view.scale;
  view.scale = next;
  redraw();
}

function zoomBy(factor) {
  const { width, height } = stage.getBoundingClientRect();
  zoomTo(view.scale * factor, width / 2, height / 2);
}

// The whole graph; a deep one begins at its top, so that it can be read.
function showAll(readable) {
  const { width, height } = stage.getBoundingClientRect();
  const whole = Math.min(1.1, (width - 40) / Math.max(1, drawing.right - drawing.left), (height - 40) / Math.max(1, drawing.bottom));
  ZOOM.least = Math.min(ZOOM.least, whole);
  view.scale = Math.max(ZOOM.least, readable ? Math.max(whole, 0.82) : whole);
  view.x = width / 2 - view.scale * (drawing.left + drawing.right) / 2;
  view.y = 20;
  // Refused nodes are shown first.
  const refused = boxes.findIndex((box) => box.refused);
  if (readable && refused >= 0) return centerOn(refused);
  const start = Math.max(0, boxes.findIndex((box) => box.given));
  if (readable && boxes.length) view.x = width / 2 - view.scale * drawing.centers[start].x;
  if (!readable) view.y = Math.max(20, (height - view.scale * drawing.bottom) / 2);
  redraw();
}

function centerOn(id) {
  const { width, height } = stage.getBoundingClientRect(), { x, y } = drawing.centers[id];
  if (view.scale < ZOOM.names) view.scale = 0.9;
  view.x = width / 2 - view.scale * x;
  view.y = height / 2 - view.scale * y;
  redraw();
}

function boxAt(clientX, clientY) {
  const edge = canvas.getBoundingClientRect();
  const x = (clientX - edge.left - view.x) / view.scale, y = (clientY - edge.top - view.y) / view.scale;
  const near = 6 / view.scale;
  for (let r = Math.max(0, rowAt(y) - 1); r < drawing.bands.length && drawing.bands[r].top <= y + near; r++) {
    for (const id of drawing.bands[r].boxes) {
      const { x: cx, y: cy } = drawing.centers[id], box = boxes[id], slack = box.dot ? near : 0;
      if (Math.abs(x - cx) <= box.w / 2 + slack && Math.abs(y - cy) <= box.h / 2 + slack) return id;
    }
  }
  return -1;
}

// The target of an arrow key: producers, readers, and neighbours in the row.
function neighbour(key) {
  if (chosen < 0) return boxes.length ? 0 : -1;
  const nearest = (ids) => ids.sort((a, b) => Math.abs(drawing.centers[a].x - drawing.centers[chosen].x) - Math.abs(drawing.centers[b].x - drawing.centers[chosen].x))[0] ?? -1;
  if (key === "ArrowUp") return nearest(edges.filter(([, to]) => to === chosen).map(([from]) => from));
  if (key === "ArrowDown") return nearest(edges.filter(([from]) => from === chosen).map(([, to]) => to));
  const row = drawing.bands[drawing.row[chosen]].boxes.slice().sort((a, b) => drawing.centers[a].x - drawing.centers[b].x);
  return row[row.indexOf(chosen) + (key === "ArrowLeft" ? -1 : 1)] ?? -1;
}

function listen() {
  const pointers = new Map();
  let moved = 0, spread = 0;
  const distance = () => { const [a, b] = [...pointers.values()]; return Math.hypot(a.x - b.x, a.y - b.y); };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (pointers.size === 1) moved = 0;
    if (pointers.size === 2) spread = distance();
    canvas.classList.add("dragged");
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const dx = event.clientX - before.x, dy = event.clientY - before.y;
    moved += Math.abs(dx) + Math.abs(dy);
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    view.x += dx / pointers.size;
    view.y += dy / pointers.size;
    if (pointers.size === 2) {
      const now = distance(), edge = canvas.getBoundingClientRect(), [a, b] = [...pointers.values()];
      zoomTo(view.scale * now / Math.max(1, spread), (a.x + b.x) / 2 - edge.left, (a.y + b.y) / 2 - edge.top);
      spread = now;
    }
    redraw();
  });
  const release = (event) => {
    if (pointers.delete(event.pointerId) && event.type === "pointerup" && moved < 5 && !pointers.size) {
      choose(boxAt(event.clientX, event.clientY), false);
    }
    if (!pointers.size) canvas.classList.remove("dragged");
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const edge = canvas.getBoundingClientRect(), lines = event.deltaMode === 1 ? 16 : 1;
    zoomTo(view.scale * Math.exp(-event.deltaY * lines * 0.0016), event.clientX - edge.left, event.clientY - edge.top);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) {
      const next = neighbour(event.key);
      if (next >= 0) choose(next, true);
    } else if (event.key === "+" || event.key === "=") zoomBy(ZOOM.step);
    else if (event.key === "-") zoomBy(1 / ZOOM.step);
    else if (event.key === "0") showAll(false);
    else if (event.key === "Escape") choose(-1, false);
    else return;
    event.preventDefault();
  });
  byId("zoom-in").addEventListener("click", () => zoomBy(ZOOM.step));
  byId("zoom-out").addEventListener("click", () => zoomBy(1 / ZOOM.step));
  byId("zoom-fit").addEventListener("click", () => showAll(false));
  // Drawn at once: before the next frame, the stage would be empty.
  new ResizeObserver(() => { if (resize()) draw(); }).observe(stage);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); redraw(); });
}

// Created when it is first visible: before that, the stage has no size.
function showGraph() {
  if (drawing) return;
  readColors();
  makeBoxes();
  drawing = layOut(boxes, edges);
  const long = (i) => drawing.lines[i].y1 - drawing.lines[i].y0 > 4 * BOX.h;
  drawing.far = drawing.lines.map((_, i) => i).filter(long);
  for (const band of drawing.bands) band.wires = band.wires.filter((i) => !long(i));
  listen();
  resize();
  showAll(true);
  draw();
  canvas.dataset.boxes = boxes.length;
}
