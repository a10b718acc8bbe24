// The graph of a part on a canvas: only what is in sight is drawn.

class Graph {
  constructor(part, name, label) {
    this.part = part;
    this.name = name;
    part.graph = this;
    this.canvas = make("canvas", { tabindex: "0", role: "application", "aria-label": label + " as a graph. Arrow keys go from box to box, with Shift they move "
      + "the view; Enter opens a block, Backspace closes the block around a box; plus and minus zoom, 0 shows everything, Escape leaves the box." });
    this.tools = make("div", { class: "tools", role: "group", "aria-label": label });
    this.addTool("+", "Zoom in", () => this.zoomBy(ZOOM.step));
    this.addTool("\u2212", "Zoom out", () => this.zoomBy(1 / ZOOM.step));
    this.addTool("fit", "fit: show everything", () => this.showAll(false));
    this.stage = make("div", { class: "stage", id: name }, this.canvas, this.tools, ...(layers && nodes ? [make("span", { class: "caption", text: label })] : []));
    this.map = new Minimap(this);
    this.pen = this.canvas.getContext("2d");
    this.view = { x: 0, y: 0, scale: 1 };
    this.least = 0.02;
    this.width = this.height = this.frame = 0;
    // Whether the reader has moved the view, which then stays.
    this.moved = false;
    this.drawing = null;
    this.chosen = null;
    this.found = [];
    this.linked = [];
    this.made = new Map();
    // Drawn at once: before the next frame, the stage would be empty.
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.colors = null; this.map.clear(); this.redraw(); });
    listen(this);
  }

  addTool(text, label, click) {
    this.tools.append(make("button", { type: "button", text, "aria-label": label, click }));
  }

  // Created when it is first visible: before that, the stage has no size.
  open() {
    if (this.drawing) return;
    this.blocks = findBlocks(this.part);
    openBlocks(this.blocks, this.part.items.length > BLOCKS.from ? BLOCKS.many : Infinity);
    if (blocksIn(this.blocks).length) {
      this.addTool("collapse", "collapse all blocks", () => this.setBlocks("Closed the blocks", () => openBlocks(this.blocks, 0, BLOCKS.few / 2)));
      this.addTool("expand", "expand all blocks", () => this.setBlocks("Opened the blocks", () => openBlocks(this.blocks, Infinity)));
    }
    this.addTool("SVG", "SVG: save the graph", () => saveSvg(this));
    if (HEATS.length) this.addHeats();
    this.build(this.part.items.findIndex((item) => item.refused));
    this.resize();
  }

  // A choice of what colours the boxes, with its scale.
  addHeats() {
    const options = [make("option", { value: "", text: "Kind" }), ...HEATS.map((heat) => make("option", { value: heat.name, text: heat.title }))];
    const select = make("select", { "aria-label": "Colours of the boxes" }, ...options), scale = make("span", { class: "scale", hidden: "" });
    select.addEventListener("change", () => {
      const heat = HEATS.find((heat) => heat.name === select.value);
      scale.hidden = !heat;
      if (heat) scale.replaceChildren(heat.ends[0], make("i"), heat.ends[1]);
      this.setHeat(heat ?? null);
    });
    this.tools.append(make("label", {}, "Colours ", select), scale);
    select.value = HEATS[0].name;
    select.dispatchEvent(new Event("change"));
  }

  // Colours the boxes by a measure, or by the kinds of layers.
  setHeat(heat) {
    this.heat = heat;
    this.made.clear();
    this.canvas.dataset.heat = heat?.name ?? "";
    if (!this.drawing) return;
    choose(this, null, false);
    this.build();
    this.redraw();
    say(heat ? "The colours show the " + heat.title.toLowerCase() + " of each box." : "The colours show the kinds.");
  }

  // The colour and the number of a box by the measure that is chosen.
  heatOf(items) {
    if (!this.heat) return {};
    const n = this.heat.of(measuresOf(this.part, items));
    return n === null ? { kind: "other" } : { heat: heatColor(this.heat.share(n)), extra: this.heat.text(n) };
  }

  // The box of an item, a block or an output; the same one each time.
  box(key, make) {
    if (!this.made.has(key)) this.made.set(key, make());
    return this.made.get(key);
  }

  boxOf(i) {
    return this.box(i, () => {
      const item = this.part.items[i];
      if (item.type === "Split" && this.part === layers) return { item: i, w: BOX.dot, h: BOX.dot, kind: "move", dot: true };
      const shape = item.shapes.length ? show(sizesOf(item.shapes[0])) : "", kind = item.refused ? "bad" : item.idle ? "other" : kindOf(item.type);
      return sized({ item: i, title: show(item.type), extra: summaryOf(item), name: show(item.name), shape, kind, refused: item.refused, given: item.type === "Input", ...this.heatOf([i]) });
    });
  }

  boxOfBlock(block) {
    return this.box(block, () => {
      const items = block.items.map((i) => this.part.items[i]), refused = items.some((item) => item.refused), extra = "\u00d7 " + items.length.toLocaleString("en");
      if (block.of !== undefined) return sized({ ...this.boxOf(block.of), item: undefined, block, extra });
      // The name of a block is in its head, and where it stands below.
      const at = block.label.replace(/[^/]+$/, ""), title = show(block.label.slice(at.length)), shape = show(countedTypes(items).slice(0, 3).map(([type]) => type).join(", "));
      return sized({ block, title, extra, name: show(at.length > 1 ? at.slice(0, -1) : block.label), shape, kind: refused ? "bad" : "product", refused,
        given: items.some((item) => item.type === "Input"), ...this.heatOf(block.items) });
    });
  }

  // Boxes and edges for the blocks that are open, with `item` out of its blocks.
  build(item = -1) {
    const { part } = this, seen = new Set();
    for (let block = this.blockAround(item); block; block = block.outer) block.open = true;
    this.boxes = [];
    this.edges = [];
    this.holders = new Array(part.items.length);
    const add = (box) => { box.at = this.boxes.length; this.boxes.push(box); return box; };
    const connect = (from, to) => {
      const key = from * (part.items.length + part.ends.length) + to;
      if (from === to || seen.has(key)) return;
      seen.add(key);
      this.edges.push([from, to]);
    };
    const walk = (parts) => {
      for (const one of parts) {
        if (typeof one === "number") this.holders[one] = add(this.boxOf(one));
        else if (one.open) walk(one.parts);
        else {
          const box = add(this.boxOfBlock(one));
          for (const i of one.items) this.holders[i] = box;
        }
      }
    };
    walk(this.blocks);
    part.items.forEach((item, i) => {
      for (const blob of item.bottoms) if (part.producers.has(blob)) connect(this.holders[part.producers.get(blob)].at, this.holders[i].at);
    });
    for (const port of part.ends) {
      const end = add(this.box(port, () => sized({ port, title: "Output", extra: "", name: show(port.blob), shape: show(port.sizes), kind: "end" })));
      connect(this.holders[part.producers.get(port.blob)].at, end.at);
    }
    const drawing = layOut(this.boxes, this.edges);
    const long = (i) => drawing.lines[i].y1 - drawing.lines[i].y0 > 4 * BOX.h;
    drawing.far = drawing.lines.map((_, i) => i).filter(long);
    for (const band of drawing.bands) band.wires = band.wires.filter((i) => !long(i));
    this.drawing = drawing;
    this.canvas.dataset.boxes = this.boxes.length;
    this.mark();
    this.map.clear();
  }

  // The innermost block of an item.
  blockAround(i) {
    if (!this.around) {
      this.around = new Map();
      const note = (parts, block) => parts.forEach((one) => { if (typeof one === "number") this.around.set(one, block); else note(one.parts, one); });
      note(this.blocks, null);
    }
    return this.around.get(i) ?? null;
  }

  // Opens or closes blocks; the chosen box, or the one that holds it now, stays where it is.
  setBlocks(what, change) {
    const { view, chosen } = this, old = chosen && this.drawing.centers[chosen.at];
    change();
    this.build();
    if (chosen) {
      const now = chosen.port ? chosen : this.holders[chosen.item ?? chosen.block.items[0]], center = this.drawing.centers[now.at];
      if (now !== chosen) choose(this, now, false);
      view.x += (old.x - center.x) * view.scale;
      view.y += (old.y - center.y) * view.scale;
      this.moved = true;
    } else this.showAll(true);
    this.redraw();
    say(what + ": " + this.boxes.length + (this.boxes.length === 1 ? " box." : " boxes."));
  }

  setOpen(block, open) {
    this.setBlocks((open ? "Opened " : "Closed ") + block.label, () => { block.open = open; });
  }

  // Which boxes stand out.
  mark() {
    this.marks = new Map();
    if (!this.drawing) return;
    for (const i of this.found) this.marks.set(this.holders[i], "mark");
    for (const i of this.linked) this.marks.set(this.holders[i], "accent");
    if (this.chosen) this.marks.set(this.chosen, "accent");
    this.canvas.dataset.linked = this.linked.length;
  }

  redraw() {
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  resize() {
    const ratio = window.devicePixelRatio || 1, { width, height } = this.canvas.getBoundingClientRect();
    const [w, h] = [width, height].map((size) => Math.round(size * ratio));
    if (!w || !h || !this.drawing || this.canvas.width === w && this.canvas.height === h && this.width) return;
    // What is in the middle stays there.
    this.view.x += (width - this.width) / 2;
    this.view.y += (height - this.height) / 2;
    [this.width, this.height, this.canvas.width, this.canvas.height] = [width, height, w, h];
    if (!this.moved) this.showAll(true);
    this.draw();
  }

  // The first row that ends below a height.
  rowAt(y) {
    const { bands } = this.drawing;
    let low = 0, high = bands.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (bands[middle].bottom < y) low = middle + 1; else high = middle;
    }
    return low;
  }

  // What is in sight, in the coordinates of the drawing.
  sight() {
    const { x, y, scale } = this.view;
    return { left: -x / scale, right: (this.width - x) / scale, top: -y / scale, bottom: (this.height - y) / scale };
  }

  draw() {
    const { drawing, pen, view, boxes } = this;
    if (!drawing || !this.width) return;
    this.colors ??= colorsOf(document.documentElement);
    const ratio = window.devicePixelRatio || 1, sight = this.sight();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.translate(view.x, view.y);
    pen.scale(view.scale, view.scale);
    // A wire begins at most in the row above the first visible one.
    const first = Math.max(0, this.rowAt(sight.top) - 1);
    let last = first;
    while (last < drawing.bands.length && drawing.bands[last].top <= sight.bottom) last++;
    const rows = drawing.bands.slice(first, last);
    const near = rows.flatMap((row) => row.wires).map((i) => drawing.lines[i])
      .filter((line) => Math.max(line.x0, line.x1) >= sight.left && Math.min(line.x0, line.x1) <= sight.right);
    const far = drawing.far.map((i) => drawing.lines[i]).filter((line) => line.y0 <= sight.bottom && line.y1 >= sight.top);
    paintWires(pen, near.concat(far), this.colors.edge, Math.max(1.2, 0.8 / view.scale));
    if (this.chosen) {
      const { at } = this.chosen, own = this.edges.flatMap(([from, to], i) => from === at || to === at ? drawing.paths[i] : []);
      paintWires(pen, own.map((i) => drawing.lines[i]), this.colors.accent, 2.2 * Math.max(1, 0.6 / view.scale));
    }
    let drawn = 0;
    for (const row of rows) {
      for (const id of row.boxes) {
        const { x, y } = drawing.centers[id], box = boxes[id];
        if (x + box.w / 2 < sight.left || x - box.w / 2 > sight.right || y + box.h / 2 < sight.top) continue;
        paintBox(pen, box, x, y, this.colors, view.scale, this.colors[this.marks.get(box)]);
        drawn++;
      }
    }
    this.canvas.dataset.drawn = drawn;
    this.map.draw(sight);
  }

  zoomTo(scale, atX, atY) {
    const { view } = this, next = Math.min(ZOOM.most, Math.max(this.least, scale));
    view.x = atX - (atX - view.x) * next / view.scale;
    view.y = atY - (atY - view.y) * next / view.scale;
    view.scale = next;
    this.moved = true;
    this.redraw();
  }

  zoomBy(factor) {
    this.zoomTo(this.view.scale * factor, this.width / 2, this.height / 2);
  }

  move(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.moved = true;
    this.redraw();
  }

  // The whole graph; a deep one begins at its top, so that it can be read.
  showAll(readable) {
    const { drawing, view, width, height } = this;
    const whole = Math.min(1.1, (width - 40) / Math.max(1, drawing.right - drawing.left), (height - 40) / Math.max(1, drawing.bottom));
    this.least = Math.min(this.least, whole);
    view.scale = Math.max(this.least, readable ? Math.max(whole, 0.82) : whole);
    view.x = width / 2 - view.scale * (drawing.left + drawing.right) / 2;
    view.y = Math.max(20, (height - view.scale * drawing.bottom) / 2);
    this.moved = !readable;
    // Refused nodes are shown first.
    const refused = this.boxes.findIndex((box) => box.refused);
    if (readable && refused >= 0) this.centerOn(refused);
    else if (readable && this.boxes.length) view.x = width / 2 - view.scale * drawing.centers[Math.max(0, this.boxes.findIndex((box) => box.given))].x;
    this.redraw();
  }

  centerOn(id) {
    const { view } = this, { x, y } = this.drawing.centers[id];
    if (view.scale < ZOOM.names) view.scale = 0.9;
    view.x = this.width / 2 - view.scale * x;
    view.y = this.height / 2 - view.scale * y;
    this.redraw();
  }

  // Brings boxes into sight, by a move if they fit.
  bring(items) {
    const boxes = [...new Set(items.map((i) => this.holders[i]))], { view } = this;
    if (!boxes.length || !this.width) return;
    const ends = boxes.map((box) => ({ box, ...this.drawing.centers[box.at] }));
    const least = (of) => ends.reduce((n, end) => Math.min(n, of(end)), Infinity);
    const left = least((end) => end.x - end.box.w / 2), right = -least((end) => -end.x - end.box.w / 2);
    const top = least((end) => end.y - end.box.h / 2), bottom = -least((end) => -end.y - end.box.h / 2);
    const sight = this.sight();
    if (left >= sight.left && right <= sight.right && top >= sight.top && bottom <= sight.bottom) return;
    const scale = Math.min(view.scale < ZOOM.names ? 0.9 : view.scale, (this.width - 40) / (right - left), (this.height - 40) / (bottom - top));
    this.moved = true;
    // Boxes that are too far apart to be read together begin with the first.
    if (scale < ZOOM.words) return this.centerOn(boxes[0].at);
    view.scale = scale;
    view.x = this.width / 2 - scale * (left + right) / 2;
    view.y = this.height / 2 - scale * (top + bottom) / 2;
    this.redraw();
  }

  // The box at a place of the stage.
  boxAt(stageX, stageY) {
    const { drawing, view, boxes } = this, x = (stageX - view.x) / view.scale, y = (stageY - view.y) / view.scale, near = 6 / view.scale;
    for (let r = Math.max(0, this.rowAt(y) - 1); r < drawing.bands.length && drawing.bands[r].top <= y + near; r++) {
      for (const id of drawing.bands[r].boxes) {
        const { x: cx, y: cy } = drawing.centers[id], box = boxes[id], slack = box.dot ? near : 0;
        if (Math.abs(x - cx) <= box.w / 2 + slack && Math.abs(y - cy) <= box.h / 2 + slack) return id;
      }
    }
    return -1;
  }

  // The target of an arrow key: producers, readers, and neighbours in the row.
  neighbour(key) {
    const { drawing, boxes, edges, chosen } = this;
    if (!chosen) return boxes.length ? 0 : -1;
    const { at } = chosen, distance = (id) => Math.abs(drawing.centers[id].x - drawing.centers[at].x);
    const nearest = (ids) => ids.sort((a, b) => distance(a) - distance(b))[0] ?? -1;
    if (key === "ArrowUp") return nearest(edges.filter(([, to]) => to === at).map(([from]) => from));
    if (key === "ArrowDown") return nearest(edges.filter(([from]) => from === at).map(([, to]) => to));
    const row = drawing.bands[drawing.row[at]].boxes.slice().sort((a, b) => drawing.centers[a].x - drawing.centers[b].x);
    return row[row.indexOf(at) + (key === "ArrowLeft" ? -1 : 1)] ?? -1;
  }
}
