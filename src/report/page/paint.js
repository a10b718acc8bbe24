// The drawing of boxes and wires by a pen: that of a canvas, or one that writes SVG.

const FONT = getComputedStyle(document.documentElement).fontFamily;
const MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';
const FONTS = { title: "600 13px " + FONT, extra: "13px " + FONT, name: "11px " + MONO, shape: "11px " + FONT };
const BOX = { h: 58, min: 96, max: 236, pad: 12, dot: 10, round: 8, stripe: 4, head: 23 };
// Below these scales, boxes have no names, or no words at all.
const ZOOM = { most: 3, step: 1.3, words: 0.38, names: 0.55 };
const measure = make("canvas").getContext("2d");

function widthOf(font, text) {
  measure.font = font;
  return measure.measureText(text).width;
}

// The part of a text that fits.
function fit(text, font, room) {
  if (widthOf(font, text) <= room) return text;
  const length = Array.from(text).length, each = Math.max(1, widthOf(font, text) / length);
  let kept = Math.min(length - 1, Math.ceil(room / each) + 4);
  while (kept > 2 && widthOf(font, middle(text, kept)) > room) kept--;
  return middle(text, kept);
}

// A box with the size that its texts need.
function sized(box) {
  const head = widthOf(FONTS.title, box.title) + (box.extra ? 7 + widthOf(FONTS.extra, box.extra) : 0);
  const wide = Math.max(head, widthOf(FONTS.name, box.name), widthOf(FONTS.shape, box.shape));
  box.w = Math.round(Math.min(BOX.max, Math.max(BOX.min, wide + 2 * BOX.pad + 4)));
  box.h = BOX.h;
  const whole = [box.title, box.name, box.shape];
  box.title = fit(box.title, FONTS.title, box.w - 2 * BOX.pad - (head - widthOf(FONTS.title, box.title)));
  box.name = fit(box.name, FONTS.name, box.w - 2 * BOX.pad);
  box.shape = fit(box.shape, FONTS.shape, box.w - 2 * BOX.pad);
  // What a pointer on the box shows.
  box.hint = [box.title, box.name, box.shape].some((text, i) => text !== whole[i]) ? whole.join("\n") : "";
  return box;
}

// The colours of the theme of an element.
function colorsOf(element) {
  const style = getComputedStyle(element);
  const names = ["back", "panel", "text", "muted", "line", "edge", "accent", "mark", "product", "activation", "norm", "pool", "arithmetic", "move", "end", "other", "bad"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
}

function trace(pen, line) {
  pen.moveTo(line.x0, line.y0);
  if (Math.abs(line.x1 - line.x0) < 0.5) pen.lineTo(line.x1, line.y1);
  else {
    const half = (line.y0 + line.y1) / 2;
    pen.bezierCurveTo(line.x0, half, line.x1, half, line.x1, line.y1);
  }
  if (line.through !== line.y1) pen.lineTo(line.x1, line.through);
}

function paintWires(pen, lines, color, width) {
  pen.lineWidth = width;
  pen.strokeStyle = color;
  pen.beginPath();
  for (const line of lines) trace(pen, line);
  pen.stroke();
}

function paintText(pen, font, color, text, x, y) {
  pen.font = font;
  pen.fillStyle = color;
  pen.fillText(text, x, y);
}

// `mark` is the colour of a box that stands out.
function paintBox(pen, box, x, y, colors, scale, mark) {
  const left = x - box.w / 2, top = y - box.h / 2, color = box.heat ?? (colors[box.kind] || colors.other);
  if (box.dot) {
    pen.fillStyle = mark ?? colors.edge;
    pen.beginPath();
    pen.arc(x, y, box.w / 2 * (mark ? 1.5 : 1), 0, 2 * Math.PI);
    pen.fill();
    return;
  }
  if (scale < ZOOM.words) {
    pen.fillStyle = mark ?? color;
    pen.fillRect(left, top, box.w, box.h);
    return;
  }
  const outline = (shift) => { pen.beginPath(); pen.roundRect(left + shift, top + shift, box.w, box.h, box.port ? BOX.h / 2 : BOX.round); };
  const stroke = () => {
    pen.lineWidth = mark || box.refused ? 2.6 : 1;
    pen.strokeStyle = mark ?? (box.refused ? colors.bad : box.block ? color : colors.line);
    pen.stroke();
  };
  pen.fillStyle = colors.panel;
  // A block is a pile of boxes.
  for (const shift of box.block ? [6, 3] : []) { outline(shift); pen.fill(); stroke(); }
  outline(0);
  pen.fill();
  // The stripe at the left, and the head, inside of the rounded corners.
  const round = box.port ? BOX.h / 2 : BOX.round, lean = Math.acos((round - BOX.stripe) / round);
  pen.fillStyle = color;
  pen.beginPath();
  pen.arc(left + round, top + round, round, Math.PI + lean, Math.PI, true);
  pen.arc(left + round, top + box.h - round, round, Math.PI, Math.PI - lean, true);
  pen.closePath();
  pen.fill();
  pen.globalAlpha = box.heat ? 0.5 : 0.16;
  pen.beginPath();
  if (box.port) {
    const deep = Math.asin((round - BOX.head) / round);
    pen.arc(left + round, top + round, round, Math.PI + deep, 1.5 * Math.PI);
    pen.arc(left + box.w - round, top + round, round, 1.5 * Math.PI, 2 * Math.PI - deep);
    pen.closePath();
  } else pen.roundRect(left, top, box.w, BOX.head, [round, round, 0, 0]);
  pen.fill();
  pen.globalAlpha = 1;
  outline(0);
  stroke();
  const words = left + BOX.pad;
  paintText(pen, FONTS.title, box.heat ? colors.text : color, box.title, words, top + 16);
  if (box.extra) paintText(pen, FONTS.extra, colors.text, box.extra, words + widthOf(FONTS.title, box.title) + 7, top + 16);
  if (scale < ZOOM.names) return;
  paintText(pen, FONTS.name, colors.text, box.name, words, top + 37);
  paintText(pen, FONTS.shape, colors.muted, box.shape, words, top + 51);
}

// The pen of a drawing in SVG: what paths and texts of a canvas use.
class SvgPen {
  constructor() {
    this.parts = [];
    this.path = "";
    this.globalAlpha = 1;
  }

  put(tag, attributes, text = "") {
    const safe = (value) => String(value).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
    const written = Object.entries(attributes).map(([name, value]) => " " + name + '="' + safe(value) + '"').join("");
    this.parts.push("<" + tag + written + (text === "" ? "/>" : ">" + safe(text) + "</" + tag + ">"));
  }

  step(letter, ...numbers) { this.path += letter + numbers.map((n) => Math.round(n * 100) / 100).join(" "); }
  beginPath() { this.path = ""; }
  moveTo(x, y) { this.step("M", x, y); }
  lineTo(x, y) { this.step("L", x, y); }
  bezierCurveTo(...points) { this.step("C", ...points); }
  closePath() { this.path += "Z"; }

  arc(x, y, r, from, to, left = false) {
    const at = (angle) => [x + r * Math.cos(angle), y + r * Math.sin(angle)];
    this.step(this.path ? "L" : "M", ...at(from));
    // A whole circle needs two arcs.
    for (const end of Math.abs(to - from) < 2 * Math.PI ? [to] : [(from + to) / 2, to]) this.step("A", r, r, 0, 0, left ? 0 : 1, ...at(end));
  }

  roundRect(x, y, w, h, round) {
    const [tl, tr, br, bl] = Array.isArray(round) ? round : [round, round, round, round];
    this.step("M", x + tl, y);
    this.step("H", x + w - tr);
    this.step("a", tr, tr, 0, 0, 1, tr, tr);
    this.step("V", y + h - br);
    this.step("a", br, br, 0, 0, 1, -br, br);
    this.step("H", x + bl);
    this.step("a", bl, bl, 0, 0, 1, -bl, -bl);
    this.step("V", y + tl);
    this.step("a", tl, tl, 0, 0, 1, tl, -tl);
    this.closePath();
  }

  fill() { this.put("path", { d: this.path, fill: this.fillStyle, ...(this.globalAlpha < 1 ? { "fill-opacity": this.globalAlpha } : {}) }); }
  stroke() { if (this.path) this.put("path", { d: this.path, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth }); }

  fillText(text, x, y) {
    const [, weight, size, family] = /^(?:(\d+) )?(\d+)px (.*)$/.exec(this.font);
    const place = { x: Math.round(x * 100) / 100, y: Math.round(y * 100) / 100 };
    this.put("text", { ...place, fill: this.fillStyle, "font-size": size, "font-family": family, ...(weight ? { "font-weight": weight } : {}) }, text);
  }
}
