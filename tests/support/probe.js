// Uses a page like a reader, and stores its observations in the title.
(async () => {
  const by = (id) => document.getElementById(id);
  const frame = () => new Promise((done) => setTimeout(done, 100));
  // Takes no virtual time of the browser, which advances before the frames in which sizes are observed.
  const turn = () => new Promise((done) => { const { port1, port2 } = new MessageChannel(); port1.onmessage = done; port2.postMessage(0); });
  seen.ready = performance.now() - seen.start;
  seen.title = document.title;
  const key = (element, name) => element.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  if (document.documentElement.dataset.ready !== "true") seen.errors.push("the page is not ready");
  seen.text = document.body.innerText;
  by("tab-graph")?.click();
  const canvas = document.querySelector(".stage:not([hidden]) > canvas");
  if (canvas) {
    const find = FIND, picture = () => canvas.toDataURL();
    await frame();
    seen.boxes = Number(canvas.dataset.boxes);
    seen.drawn = Number(canvas.dataset.drawn);
    const dots = () => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const pixels = () => dots().filter((value, i) => i % 4 === 3 && value > 0).length;
    seen.pixels = pixels();
    // A resized stage is drawn again before the next frame.
    const later = [], soon = window.requestAnimationFrame, whole = canvas.width;
    window.requestAnimationFrame = (draw) => later.push(draw);
    const resized = async (style, width) => {
      canvas.parentElement.style.width = style;
      for (let i = 0; i < 100000 && canvas.width !== width; i++) await turn();
      return canvas.width === width && pixels() > 0;
    };
    seen.resized = await resized("200px", 200) && await resized("", whole);
    window.requestAnimationFrame = soon;
    later.forEach(soon);
    await frame();
    const before = picture(), pointer = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, { pointerId: 1, clientX: x, clientY: y, bubbles: true }));
    canvas.setPointerCapture = () => {};
    pointer("pointerdown", 100, 300);
    pointer("pointermove", 140, 360);
    pointer("pointerup", 140, 360);
    await frame();
    const moved = picture();
    seen.moved = moved !== before;
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: 300, clientX: 100, clientY: 300, cancelable: true }));
    await frame();
    seen.zoomed = picture() !== moved;
    by("search").value = find;
    by("search").dispatchEvent(new Event("input"));
    seen.found = by("found").textContent;
    key(by("search"), "Enter");
    await frame();
    seen.chosen = canvas.dataset.chosen;
    seen.details = by("details").textContent;
    const other = by("onnx").querySelector("canvas");
    if (other !== canvas) {
      by("switch").querySelector("[value=both]").click();
      Object.assign(seen, { nodes: Number(other.dataset.boxes), linked: Number(other.dataset.linked) });
    }
    key(canvas, "ArrowDown");
    seen.walked = canvas.dataset.chosen;
    by("search").value = "";
    by("search").dispatchEvent(new Event("input"));
    const list = by("tab-layers") ? "layers" : "nodes";
    by("tab-" + list).click();
    await frame();
    const table = by("view-" + list).querySelector("table");
    seen.rows = Number(table.getAttribute("aria-rowcount")) - 1;
    seen.in_document = table.querySelectorAll("tbody tr").length;
    [...table.querySelectorAll("th button")].find((button) => /^(Multiply-adds|Operator)/.test(button.textContent)).click();
    seen.sorted = table.querySelector("tbody tr:not(.space) .link").textContent;
    for (const tab of document.querySelectorAll("[role=tab]")) tab.click();
  }
  seen.images = document.images.length;
  seen.wider = document.documentElement.scrollWidth > innerWidth;
  seen.requests = performance.getEntriesByType("resource").map((entry) => entry.name);
  await frame();
  document.title = "seen:" + encodeURIComponent(JSON.stringify(seen));
})().catch((error) => { document.title = "seen:" + encodeURIComponent(JSON.stringify({ errors: [String(error)] })); });
