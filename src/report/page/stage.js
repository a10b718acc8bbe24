// Pointers and keys on a graph, its minimap, and its picture.

function listen(graph) {
  const { canvas } = graph, pointers = new Map();
  let moved = 0, spread = 0;
  const distance = () => { const [a, b] = [...pointers.values()]; return Math.hypot(a.x - b.x, a.y - b.y); };
  const hit = (event) => { const edge = canvas.getBoundingClientRect(); return graph.boxes[graph.boxAt(event.clientX - edge.left, event.clientY - edge.top)] ?? null; };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (pointers.size === 1) moved = 0;
    if (pointers.size === 2) spread = distance();
    canvas.classList.add("dragged");
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      const hint = hit(event)?.hint ?? "";
      if (canvas.title !== hint) canvas.title = hint;
      return;
    }
    const dx = event.clientX - before.x, dy = event.clientY - before.y;
    moved += Math.abs(dx) + Math.abs(dy);
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    graph.move(dx / pointers.size, dy / pointers.size);
    if (pointers.size === 2) {
      const now = distance(), edge = canvas.getBoundingClientRect(), [a, b] = [...pointers.values()];
      graph.zoomTo(graph.view.scale * now / Math.max(1, spread), (a.x + b.x) / 2 - edge.left, (a.y + b.y) / 2 - edge.top);
      spread = now;
    }
  });
  const release = (event) => {
    if (pointers.delete(event.pointerId) && event.type === "pointerup" && moved < 5 && !pointers.size) {
      const box = hit(event);
      // A second click on a block opens it.
      if (box?.block && box === graph.chosen) graph.setOpen(box.block, true); else choose(graph, box, false);
    }
    if (!pointers.size) canvas.classList.remove("dragged");
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const edge = canvas.getBoundingClientRect(), lines = event.deltaMode === 1 ? 16 : 1;
    graph.zoomTo(graph.view.scale * Math.exp(-event.deltaY * lines * 0.0016), event.clientX - edge.left, event.clientY - edge.top);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { chosen } = graph, way = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (way && event.shiftKey) graph.move(...way);
    else if (way) {
      const next = graph.neighbour(event.key);
      if (next >= 0) choose(graph, graph.boxes[next], true);
    } else if (event.key === "Enter" && chosen?.block) graph.setOpen(chosen.block, true);
    else if (event.key === "Backspace" && chosen) {
      const around = chosen.block ? chosen.block.outer : graph.blockAround(chosen.item);
      if (around) graph.setOpen(around, false);
    } else if (event.key === "+" || event.key === "=") graph.zoomBy(ZOOM.step);
    else if (event.key === "-") graph.zoomBy(1 / ZOOM.step);
    else if (event.key === "0") graph.showAll(false);
    else if (event.key === "Escape") choose(graph, null, false);
    else return;
    event.preventDefault();
  });
}

// The whole graph in a corner, with a frame around what is in sight. The keyboard moves the view without it.
class Minimap {
  constructor(graph) {
    this.graph = graph;
    this.canvas = make("canvas", { class: "map", "aria-hidden": "true" });
    this.canvas.hidden = true;
    this.whole = null;
    graph.stage.append(this.canvas);
    const to = (event) => {
      const edge = this.canvas.getBoundingClientRect(), { view, width, height, drawing } = graph;
      const x = (event.clientX - edge.left) / this.x + drawing.left, y = (event.clientY - edge.top) / this.y;
      graph.move(width / 2 - view.scale * x - view.x, height / 2 - view.scale * y - view.y);
    };
    this.canvas.addEventListener("pointerdown", (event) => { this.canvas.setPointerCapture(event.pointerId); to(event); });
    this.canvas.addEventListener("pointermove", (event) => { if (event.buttons) to(event); });
  }

  clear() { this.whole = null; }
  room() { return [Math.min(190, this.graph.width / 3), Math.min(230, this.graph.height / 3)]; }

  // A copy of the graph; the width of a narrow one is stretched.
  paint() {
    const { drawing, boxes, colors } = this.graph, ratio = window.devicePixelRatio || 1;
    const w = Math.max(1, drawing.right - drawing.left), h = Math.max(1, drawing.bottom), most = this.room();
    const scale = Math.min(most[0] / w, most[1] / h);
    this.x = Math.max(scale, Math.min(48, most[0]) / w);
    this.y = Math.max(scale, Math.min(24, most[1]) / h);
    this.most = most.join();
    this.whole = make("canvas");
    const pen = this.whole.getContext("2d");
    this.whole.width = this.canvas.width = Math.ceil(w * this.x * ratio);
    this.whole.height = this.canvas.height = Math.ceil(h * this.y * ratio);
    this.canvas.style.width = w * this.x + "px";
    this.canvas.style.height = h * this.y + "px";
    pen.scale(this.x * ratio, this.y * ratio);
    pen.translate(-drawing.left, 0);
    paintWires(pen, drawing.lines, colors.line, 0.6 / this.x);
    boxes.forEach((box, id) => paintBox(pen, box, drawing.centers[id].x, drawing.centers[id].y, colors, 0));
  }

  draw(sight) {
    const { drawing, colors } = this.graph, ratio = window.devicePixelRatio || 1;
    this.canvas.hidden = sight.left <= drawing.left && sight.right >= drawing.right && sight.top <= 0 && sight.bottom >= drawing.bottom;
    if (this.canvas.hidden) return;
    if (!this.whole || this.most !== this.room().join()) this.paint();
    const pen = this.canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.whole, 0, 0);
    const left = (Math.max(sight.left, drawing.left) - drawing.left) * this.x, right = (Math.min(sight.right, drawing.right) - drawing.left) * this.x;
    const top = Math.max(sight.top, 0) * this.y, bottom = Math.min(sight.bottom, drawing.bottom) * this.y;
    pen.scale(ratio, ratio);
    pen.strokeStyle = pen.fillStyle = colors.accent;
    pen.lineWidth = 2;
    pen.globalAlpha = 0.12;
    pen.fillRect(left, top, right - left, bottom - top);
    pen.globalAlpha = 1;
    pen.strokeRect(left + 1, top + 1, Math.max(2, right - left - 2), Math.max(2, bottom - top - 2));
  }
}

// The whole graph with the blocks as they are, in the light theme.
function saveSvg(graph) {
  const { drawing, boxes, name } = graph, pen = new SvgPen(), light = make("i", { class: "light" }), rim = 20;
  document.body.append(light);
  const colors = colorsOf(light);
  light.remove();
  const [x, y, w, h] = [drawing.left - rim, -rim, drawing.right - drawing.left + 2 * rim, drawing.bottom + 2 * rim].map(Math.round);
  const title = document.title + ", " + (graph.part === layers ? "net" : "model");
  pen.put("title", {}, title);
  pen.put("rect", { x, y, width: w, height: h, fill: colors.back });
  paintWires(pen, drawing.lines, colors.edge, 1.2);
  boxes.forEach((box, id) => paintBox(pen, box, drawing.centers[id].x, drawing.centers[id].y, colors, 1));
  // The name space is that of the element.
  const space = new DOMParser().parseFromString("<svg>", "text/html").querySelector("svg").namespaceURI;
  const head = '<svg xmlns="' + space + '" width="' + w + '" height="' + h + '" viewBox="' + [x, y, w, h].join(" ") + '" role="img">';
  const text = head + "\n" + pen.parts.join("\n") + "\n</svg>\n";
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  make("a", { href: url, download: document.title.replace(/\.onnx$/, "") + "." + name + ".svg" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
  say("Saved the graph as SVG.");
}
