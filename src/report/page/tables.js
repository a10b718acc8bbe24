// Tables of any length: only the visible rows are in the document.

const ROW = 30, TEXT = 40;
const tables = [];

// Columns: `{title, of, number, mono, cell}`; `of` returns the value for display and sorting.
function makeTable(room, caption, columns, rows, options = {}) {
  const table = { rows, shown: rows.map((_, i) => i), column: -1, falling: false, text: "" };
  const head = make("tr");
  const body = make("tbody");
  const scroller = make("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption });
  const refresh = () => {
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW) - 10);
    const last = Math.min(table.shown.length, first + Math.ceil((scroller.clientHeight || 600) / ROW) + 20);
    const space = (height) => {
      const cell = make("td", { colspan: columns.length });
      cell.style.height = height + "px";
      return make("tr", { class: "space", "aria-hidden": "true" }, cell);
    };
    const made = table.shown.slice(first, last).map((id, i) => {
      const row = make("tr", { "aria-rowindex": first + i + 2, class: options.chosen?.(id) ? "chosen" : null });
      for (const column of columns) {
        const value = column.of(rows[id], id);
        const cell = make("td", { class: [column.number ? "number" : "", column.mono ? "mono" : ""].join(" ").trim() || null });
        if (column.cell) cell.append(...column.cell(rows[id], id));
        else {
          const text = show(column.show ? column.show(value) : value);
          cell.textContent = middle(text, TEXT);
          if (cell.textContent !== text) cell.title = text;
        }
        row.append(cell);
      }
      return row;
    });
    body.replaceChildren(space(first * ROW), ...made, space((table.shown.length - last) * ROW));
  };
  const arrange = () => {
    const words = table.text.toLowerCase().split(/\s+/).filter((word) => word);
    table.shown = rows.map((_, i) => i).filter((i) => words.every((word) => options.text(rows[i], i).includes(word)));
    if (table.column >= 0) {
      const key = rows.map((row, i) => columns[table.column].of(row, i)), sign = table.falling ? -1 : 1;
      const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
      table.shown.sort((a, b) => sign * compare(key[a] ?? -1, key[b] ?? -1) || a - b);
    }
    element.setAttribute("aria-rowcount", table.shown.length + 1);
    scroller.scrollTop = 0;
    refresh();
  };
  columns.forEach((column, i) => {
    const sort = () => {
      const again = table.column === i;
      // Large numbers are sorted first.
      table.falling = again ? !table.falling : Boolean(column.number && i > 0);
      table.column = i;
      [...head.children].forEach((cell, j) => {
        cell.setAttribute("aria-sort", j !== i ? "none" : table.falling ? "descending" : "ascending");
        cell.firstChild.textContent = columns[j].title + (j !== i ? "" : table.falling ? " \u2193" : " \u2191");
      });
      arrange();
    };
    head.append(make("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": "none" }, make("button", { type: "button", text: column.title, click: sort })));
  });
  const element = make("table", { "aria-label": caption }, make("thead", {}, head), body);
  scroller.append(element);
  scroller.addEventListener("scroll", refresh, { passive: true });
  room.replaceChildren(scroller);
  table.filter = (text) => { table.text = text; arrange(); };
  table.refresh = refresh;
  arrange();
  tables.push(table);
  return table;
}

function refreshTables() {
  for (const table of tables) table.refresh();
}

function showLayers() {
  const columns = [
    { title: "#", number: true, of: (layer, i) => i + 1 },
    { title: "Type", of: (layer) => layer.type, cell: (layer) => [make("span", { class: "swatch", style: "background: var(--" + kindOf(layer.type) + ")" }), layer.type] },
    { title: "Name", of: (layer) => layer.name, cell: (layer, i) => [linkTo(layers, i, undefined, TEXT)] },
    { title: "Shape", mono: true, of: (layer) => layer.shapes.map(sizesOf).join(" ") },
    { title: "Parameters", number: true, of: (layer) => weightSum(layer, "elements"), show: (n) => n ? n.toLocaleString("en") : "" },
    { title: "Bytes", number: true, of: (layer) => weightSum(layer, "bytes"), show: (n) => n ? bytesOf(n) : "" },
    { title: "Multiply-adds", number: true, of: (layer) => layer.multiply_adds, show: (n) => n === null ? "?" : n ? n.toLocaleString("en") : "" },
    ...HEATS.map((heat) => ({ title: heat.title, number: true, of: (_, i) => heat.of(measuresOf(layers, [i])) ?? -1, show: (n) => n < 0 ? "" : heat.text(n) })),
    { title: "Reads", mono: true, of: (layer) => layer.bottoms.join(" ") },
    { title: "Params", mono: true, of: (layer) => layer.params.map((param) => param.name + "=" + valueText(param.value)).join(" ") },
    { title: "Nodes", mono: true, of: (layer) => layer.nodes.map((n) => report.nodes[n].op_type).join(" ") },
  ];
  makeTable(byId("view-layers"), "Layers", columns, layers.items, { text: (_, i) => layers.textOf(i), chosen: (i) => chosen?.part === layers && i === chosen.i });
}

function showNodes() {
  const texts = report.nodes.map((node) => [node.name, node.op_type, ...node.outputs, ...node.layers].join("\n").toLowerCase());
  const columns = [
    { title: "#", number: true, of: (node) => node.index },
    { title: "Operator", of: (node) => node.op_type },
    { title: "Name", mono: true, of: nodeTitle, cell: (node, i) => [linkTo(nodes, itemOfNode(i), undefined, TEXT)] },
    { title: "Becomes", of: (node) => BECOMES[node.becomes] ?? "" },
    { title: "Shape", mono: true, of: (node) => node.shapes.map(sizesOf).join(" ") },
    { title: "Layers", of: (node) => node.layers.join(" "), cell: (node) => node.layers.slice(0, 20).flatMap((name) => [linkTo(layers, layers.byName.get(name), name, TEXT), " "]) },
  ];
  const isChosen = (n) => chosen?.part === nodes ? chosen.i === itemOfNode(n) : Boolean(chosen && layers.items[chosen.i].nodes.includes(n));
  makeTable(byId("view-nodes"), "Nodes of the model", columns, report.nodes, { text: (_, i) => texts[i], chosen: isChosen });
}
