// The views, the search, and the header.

// The item that is chosen, `{part, i}`.
let chosen = null;
const VIEWS = [];
const opened = new Set();

function addView(name, title, count, open) {
  const tab = make("button", { type: "button", role: "tab", id: "tab-" + name, "aria-controls": "view-" + name, "aria-selected": "false", tabindex: "-1", text: title, click: () => openView(name) });
  if (count !== null) tab.append(make("span", { class: "count", text: count.toLocaleString("en") }));
  byId("tabs").append(tab);
  VIEWS.push({ name, tab, open });
}

function openView(name) {
  for (const view of VIEWS) {
    const own = view.name === name;
    view.tab.setAttribute("aria-selected", String(own));
    view.tab.tabIndex = own ? 0 : -1;
    byId("view-" + view.name).hidden = !own;
    if (own && !opened.has(name)) {
      opened.add(name);
      view.open();
    }
  }
  refreshTables();
}

byId("tabs").addEventListener("keydown", (event) => {
  const at = VIEWS.findIndex((view) => view.tab === document.activeElement);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: VIEWS.length - 1 }[event.key];
  const view = VIEWS[(to + VIEWS.length) % VIEWS.length];
  if (at < 0 || !view) return;
  event.preventDefault();
  openView(view.name);
  view.tab.focus();
});

function placeText(at) {
  const words = at.graph.slice();
  if (at.node) words.push("node " + at.node.index + (at.node.name ? ' "' + at.node.name + '"' : "") + " " + at.node.op_type + "-" + at.node.version);
  if (at.file) words.push(at.file);
  if (at.part) words.push(at.part);
  return words.join(": ");
}

// Diagnostics with the same reason are grouped.
function showDiagnostics() {
  const room = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Diagnostics" }), groups = new Map();
  for (const found of report.diagnostics) {
    const key = JSON.stringify([found.severity, found.kind, found.reason, found.causes, found.help]);
    if (!groups.has(key)) groups.set(key, { found, places: [] });
    const place = placeText(found.at);
    if (place && !groups.get(key).places.includes(place)) groups.get(key).places.push(place);
  }
  if (report.model && !net) room.append(modelCard());
  for (const { found, places } of groups.values()) {
    const card = make("div", { class: "card " + found.severity }, make("span", { class: "kind", text: found.kind ?? found.severity }), " ", show([found.reason, ...found.causes].join(": ")));
    const list = (from, to) => places.slice(from, to).map((place) => make("li", { class: "name", text: place }));
    const places_list = make("ul", { class: "plain" }, ...list(0, 20));
    if (places.length) card.append(places_list);
    if (places.length > 20) {
      const more = make("button", { type: "button", class: "link", text: "and " + (places.length - 20) + " more", click: () => { places_list.append(...list(20)); more.remove(); } });
      card.append(more);
    }
    if (found.help) card.append(make("p", { text: "Help: " + found.help }));
    room.append(card);
  }
  for (const { words, percent, counted } of report.remedies) {
    const what = percent === 100 ? "These options convert the whole model" : "These options convert a part with " + percent + " % of the " + counted;
    const line = words.map((word) => /^[\w\-./:=,]+$/.test(word) ? word : '"' + word + '"').join(" ");
    room.append(make("div", { class: "card" }, make("span", { class: "kind", text: what }), make("p", {}, make("code", { text: line }), copyButton(line, "the options"))));
  }
  if (!room.children.length) room.append(make("p", { text: "There is nothing to tell." }));
  byId("view-diagnostics").replaceChildren(room);
}

function showPasses() {
  const change = (pass) => pass.before === null || pass.of === "layers" && pass.name === "lower" ? "" : pass.after - pass.before;
  const columns = [
    { title: "#", number: true, of: (_, i) => i + 1 },
    { title: "Step", of: (pass) => pass.name },
    { title: "Left", number: true, of: (pass) => pass.after, show: (n) => n.toLocaleString("en") },
    { title: "Change", number: true, of: change, show: (n) => n > 0 ? "+" + n : n < 0 ? "\u2212" + -n : "" },
    { title: "Of", of: (pass) => pass.of },
  ];
  makeTable(byId("view-passes"), "Steps", columns, report.passes, { text: (pass) => pass.name });
}

// What the model is. That of a refused one stands before the reasons, and is short.
function modelCard(whole = false) {
  const { model } = report, opsets = Object.entries(model.opsets).map(([domain, version]) => domain + " " + version).join(", ");
  const ports = (values) => values.slice(0, 20).map((value) => value.name + " " + value.dtype + " " + sizesOf(value.shape)).join(", ") + (values.length > 20 ? ", \u2026" : "");
  if (!whole) {
    return make("div", { class: "card" }, pairs([["inputs", ports(model.inputs)], ["outputs", ports(model.outputs)],
      ...(model.producer ? [["made by", model.producer]] : []), ["operator sets", opsets], ["parameters", amountOf(model.parameters) || "0"]]));
  }
  const rows = [["file", model.file], ...(model.data_files.length ? [["external data", model.data_files.join(", ")]] : []), ["made by", model.producer || "?"], ["IR version", model.ir_version],
    ["operator sets", opsets], ["parameters", (amountOf(model.parameters) || "0") + " in " + bytesOf(model.parameter_bytes)],
    ["multiply-adds", (amountOf(model.multiply_adds) || "0") + (model.uncounted ? ", and " + plural(model.uncounted, "node") + " of free sizes" : "")]];
  return make("div", { class: "card" }, make("h2", { text: "Model" }), pairs(rows));
}

function showModel() {
  const model = report.model, room = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Model" });
  const card = (title, rows) => room.append(make("div", { class: "card" }, make("h2", { text: title }), pairs(rows)));
  room.append(modelCard(true));
  if (comparison.outputs.length) room.append(make("div", { class: "card" }, make("h2", { text: "Outputs beside the model" }), ...comparison.outputs.map(measurePairs)));
  room.append(...metadataCards(model.metadata));
  for (const [title, what, values] of [["Inputs", "input", model.inputs], ["Outputs", "output", model.outputs]]) {
    const rows = values.flatMap((value) => [make("dt", {}, ...nameOf(value.name, what)), make("dd", { text: value.dtype + " " + sizesOf(value.shape) })]);
    room.append(make("div", { class: "card" }, make("h2", { text: title }), make("dl", { class: "pairs" }, ...rows)));
  }
  card("Operators", Object.entries(model.operators).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name, n]) => [name, n]));
  if (net) card("Weights in the .bin file", Object.entries(net.storage).map(([type, sum]) => [type, plural(sum.weights, "weight") + ", " + amountOf(sum.elements) + " elements, " + bytesOf(sum.bytes)]));
  byId("view-model").replaceChildren(room);
}

// What the model says about its use: what is known of it, and all entries as they are.
function metadataCards(said) {
  const cards = [];
  const card = (title, text, ...body) => cards.push(make("div", { class: "card" }, make("h2", {}, title + " ", copyButton(text, title.toLowerCase())), ...body));
  const facts = [["task", said.task], ["height and width", said.image_size?.join(" \u00d7 ")], ["multiples of", said.stride],
    ["samples per second", said.sample_rate]].filter(([, value]) => value);
  if (facts.length) card("Use", facts.map(([name, value]) => name + ": " + value).join("\n"), pairs(facts));
  for (const [title, names] of [["Classes", said.classes], ["Alphabet", said.alphabet]]) {
    if (!names.length) continue;
    const list = make("ol", { class: title === "Classes" ? "names" : "names signs", start: "0" });
    const fill = (from, to) => list.append(...names.slice(from, to).map((name) => make("li", { text: name })));
    fill(0, 100);
    const count = names.length - 100, more = make("button", { type: "button", class: "link", text: "and " + count.toLocaleString("en") + " more", click: () => { fill(100); more.remove(); } });
    card(title, names.join("\n"), list, ...(count > 0 ? [more] : []));
  }
  const entries = Object.entries(said.entries);
  if (entries.length) {
    const short = (text) => text.length > 1000 ? text.slice(0, 1000) + "\u2026" : text;
    const rows = entries.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", {}, make("span", { text: short(value) }), copyButton(value, "entry " + show(name)))]);
    card("Metadata", JSON.stringify(said.entries, null, 2), make("dl", { class: "pairs" }, ...rows));
  }
  return cards;
}

// Whether the net was compared with the model, and with what result.
function checkedText() {
  if (comparison.verdict) return comparison.verdict;
  const wrong = comparison.outputs.filter((found) => !found.same), error = largest(numbersOf(comparison.outputs, (found) => found.relative));
  return wrong.length ? "differs in " + middle(wrong.map((found) => found.name).join(", "), 40) : "the same as the model" + (error === null ? "" : ", within " + error.toExponential(1));
}

function showFacts() {
  const facts = [];
  if (comparison.outputs.length) facts.push(["checked", checkedText()]);
  if (comparison.seconds) facts.push(["time on the device", timeText(comparison.seconds)]);
  if (report.model) facts.push(["nodes", report.model.nodes.toLocaleString("en")]);
  if (net) {
    facts.push(["layers", layers.items.length.toLocaleString("en")], ["parameters", amountOf(layers.items.reduce((n, layer) => n + weightSum(layer, "elements"), 0)) || "0"],
      ["multiply-adds", (amountOf(net.multiply_adds) || "0") + (net.uncounted ? " +" : "")], ["size", bytesOf(net.bin_bytes + net.param_bytes)], ["loads in ncnn", net.oldest_ncnn + " and later"]);
  }
  facts.push(["converter", report.generator]);
  byId("facts").append(...facts.map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }))));
}

let mode = "", found = [], turn = -1;
const search = byId("search"), results = byId("results");

// Shows the net, the model, or both.
function setMode(next) {
  const before = searched();
  mode = next;
  for (const button of byId("switch").children) button.setAttribute("aria-pressed", String(button.value === mode));
  for (const part of [layers, nodes]) {
    if (!part) continue;
    const { graph } = part;
    graph.stage.hidden = mode !== "both" && mode !== graph.name;
    if (graph.stage.hidden) continue;
    graph.open();
    graph.resize();
    if (graph.linked.length) graph.bring(graph.linked);
    graph.draw();
  }
  if (searched() !== before) onSearch();
}

function showGraph() {
  const modes = layers && nodes ? [["net", "Net"], ["both", "Both"], ["onnx", "ONNX"]] : [];
  byId("switch").append(...modes.map(([value, text]) => make("button", { type: "button", value, text, click: () => setMode(value) })));
  byId("switch").hidden = !modes.length;
  for (const [part, name, label] of [[layers, "net", "The net"], [nodes, "onnx", "The ONNX model"]]) {
    if (part) byId("stages").append(new Graph(part, name, label).stage);
  }
  details.replaceChildren(...overview(main));
  setMode(main.graph.name);
}

// What the search looks through.
const searched = () => mode === "onnx" ? nodes : main;

function onSearch() {
  const text = search.value.trim(), part = searched();
  found = part.find(text);
  turn = -1;
  for (const one of [layers, nodes]) {
    if (!one?.graph) continue;
    one.graph.found = one === part ? found : [];
    one.graph.mark();
    one.graph.redraw();
  }
  byId("found").textContent = text ? plural(found.length, part.noun) : "";
  const graph = !byId("view-graph").hidden;
  results.hidden = !graph || !text || !found.length || document.activeElement !== search;
  results.replaceChildren(...(results.hidden ? [] : found.slice(0, 40).map((i, at) => make("li", {}, make("button", { type: "button", class: "result",
    click: () => { turn = at; goTo(part, i); } }, show(part.items[i].name), make("small", { text: part.items[i].type }))))));
  for (const table of tables) table.filter(text);
}

// Chooses an item and brings it into sight, out of its blocks.
function goTo(part, i) {
  results.hidden = true;
  openView("graph");
  const { graph } = part;
  if (graph.stage.hidden) setMode("both");
  if (graph.holders[i].block) graph.build(i);
  choose(graph, graph.holders[i], true);
}

if (main) {
  search.addEventListener("input", onSearch);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && found.length && !byId("view-graph").hidden) {
      turn = (turn + (event.shiftKey ? found.length - 1 : 1)) % found.length;
      goTo(searched(), found[turn]);
      byId("found").textContent = turn + 1 + " of " + found.length;
    } else if (event.key === "Escape") results.hidden = true;
    else if (event.key === "ArrowDown" && !results.hidden) { results.querySelector("button")?.focus(); event.preventDefault(); }
  });
  results.addEventListener("keydown", (event) => {
    const item = document.activeElement.parentElement;
    const next = event.key === "ArrowDown" ? item.nextElementSibling : event.key === "ArrowUp" ? item.previousElementSibling ?? search.parentElement : null;
    if (event.key === "Escape") { results.hidden = true; search.focus(); }
    if (!next) return;
    event.preventDefault();
    (next === search.parentElement ? search : next.firstChild).focus();
  });
  byId("finder").addEventListener("focusout", (event) => { if (!byId("finder").contains(event.relatedTarget)) results.hidden = true; });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { search.focus(); search.select(); event.preventDefault(); }
  });
} else byId("finder").hidden = true;

byId("status").classList.add(report.status);
showFacts();
const addGraph = () => addView("graph", "Graph", null, showGraph);
if (net) {
  addGraph();
  addView("layers", "Layers", layers.items.length, showLayers);
}
if (report.nodes.length && net) addView("nodes", "Nodes", report.nodes.length, showNodes);
addView("diagnostics", "Diagnostics", report.diagnostics.length, showDiagnostics);
if (report.nodes.length && !net) {
  addGraph();
  addView("nodes", "Nodes", report.nodes.length, showNodes);
}
if (report.passes.length) addView("passes", "Steps", report.passes.length, showPasses);
if (report.model) addView("model", "Model", null, showModel);
openView(VIEWS[0].name);
document.documentElement.dataset.ready = "true";
