// The attention of one head, large, and of all heads as thumbnails.
import {
  cellAt, colour, decoded, drawGrid, el, groupsOf, headOf, merged, percent, readable, rowOf, textOn,
} from "/static/parts.js";
import { headId, state } from "/static/view.js";

const byId = (id) => document.getElementById(id);
const WHY = {
  encoder: "Row t is token t of the source; it may look at the whole source.",
  decoder: "Row t is the step that writes token t. It cannot see that token yet: what it reads is the one before, so a head that looks at “itself” looks one place to the left.",
  cross: "Row t is the step that writes token t. It has read the tokens before, and looks at the source to choose this one.",
};

let data = null, values = {}, grid = null, watcher = null, act = () => {};

export function show(found, onChange) {
  data = found;
  act = onChange;
  const kinds = Object.keys(data.trace.attention);
  values = Object.fromEntries(kinds.map((kind) => [kind, decoded(data.trace.attention[kind])]));
  if (!kinds.includes(state.kind)) { state.kind = kinds[kinds.length - 1]; state.chosenHead = false; }
  if (!state.chosenHead && data.aligned) [state.layer, state.head] = data.aligned;
  const [layers, heads] = data.trace.attention[state.kind].shape;
  state.layer = Math.min(state.layer, layers - 1);
  state.head = Math.min(state.head, heads - 1);
  byId("kinds").replaceChildren(...kinds.map((kind) => {
    const button = el("button", { type: "button", "aria-pressed": String(kind === state.kind) }, kind);
    button.addEventListener("click", () => choose({ kind }));
    return button;
  }));
  draw();
  drawThumbs();
}

function sides(kind) {
  const { trace, read } = data;
  const written = kind === "encoder" ? trace.source : trace.target;
  return [state.shift && kind !== "encoder" ? read : written, kind === "decoder" ? read : trace.source];
}
function groups(kind) { return sides(kind).map((side) => groupsOf(side, state.words, state.marks)); }
export function cells(kind, layer, head, rows, columns, of = data, packed = values) {
  return merged(headOf(of.trace.attention[kind], packed[kind], layer, head), rows, columns);
}
export function current() { return grid; }
function spot() { return state.kind === "encoder" ? "position" : "step"; }

export function choose(change) {
  if ("layer" in change || "head" in change) state.chosenHead = true;
  const redraw = ["kind", "words", "marks", "shift"].some((name) => name in change);
  Object.assign(state, change);
  const [layers, heads] = data.trace.attention[state.kind].shape;
  state.layer = Math.max(0, Math.min(layers - 1, state.layer));
  state.head = Math.max(0, Math.min(heads - 1, state.head));
  if (redraw) show(data, act); else draw();
  act("view");
}

// ---- the head that is looked at ----

function draw() {
  const [rows, columns] = groups(state.kind);
  const found = cells(state.kind, state.layer, state.head, rows, columns);
  const row = Math.max(0, rowOf(rows, state[spot()]));
  const width = byId("grid").parentElement.clientWidth - 8;
  grid = { rows, columns, cells: found, row, place: drawGrid(byId("grid"), found, rows, columns, { row, width }) };
  const name = `${state.kind} attention, layer ${state.layer + 1}, head ${state.head + 1}`;
  const best = data.aligned && "cross" in data.trace.attention && state.kind === "cross" &&
    data.aligned[0] === state.layer && data.aligned[1] === state.head;
  const off = state.off.has(headId(state.kind, state.layer, state.head)) ? " — switched off" : "";
  byId("head-name").textContent = `${name}${best ? " — the head that agrees best with what the answer depends on" : ""}${off}`;
  byId("grid").setAttribute("aria-label", `${name}. Rows: what is written; columns: what is looked at.`);
  byId("row-name").textContent = state.kind === "encoder" ? "token" : state.shift ? "reads" : "writes";
  byId("why").textContent = WHY[state.kind];
  byId("shift-label").hidden = state.kind === "encoder";
  for (const name of ["words", "marks", "shift"]) byId(name).checked = state[name];
  for (const button of byId("kinds").children) button.setAttribute("aria-pressed", String(button.textContent === state.kind));
  for (const button of document.querySelectorAll("#thumbs [data-head]")) {
    button.setAttribute("aria-pressed", String(button.dataset.head === headId(state.kind, state.layer, state.head)));
  }
  drawLines(row);
}
function drawLines(row) {
  byId("row-tokens").replaceChildren(...grid.rows.map((group, y) => {
    const token = el("button", { type: "button", class: "token", dir: "auto", "aria-pressed": String(y === row) }, readable(group.text));
    token.addEventListener("mouseenter", () => shade(y));
    token.addEventListener("focus", () => shade(y));
    token.addEventListener("mouseleave", () => shade(grid.row));
    token.addEventListener("click", () => choose({ [spot()]: group.start }));
    return token;
  }));
  byId("column-tokens").replaceChildren(...grid.columns.map((group) =>
    el("span", { class: "token", dir: "auto" }, readable(group.text))));
  shade(row);
}
function shade(row) {
  if (!(row in grid.cells)) { byId("cell").textContent = ""; return; }
  // Styles are read once and not for every token: a source may have 512.
  const fill = colour("--for"), inks = new Map();
  const inkOn = (share) => {
    const level = Math.round(share * 50);
    if (!inks.has(level)) inks.set(level, textOn(level / 50));
    return inks.get(level);
  };
  [...byId("column-tokens").children].forEach((token, x) => {
    const share = grid.cells[row][x];
    token.style.background = `color-mix(in srgb, ${fill} ${(100 * share).toFixed(1)}%, transparent)`;
    token.style.color = inkOn(share);
    token.setAttribute("title", percent(share));
  });
  const order = grid.cells[row].map((value, x) => [value, x]).sort((a, b) => b[0] - a[0]);
  const most = order.slice(0, 3).filter(([value]) => value > 0)
    .map(([value, x]) => `“${readable(grid.columns[x].text)}” ${percent(value)}`);
  byId("cell").textContent = `“${readable(grid.rows[row].text)}” looks at ${most.join(", ") || "marks, which are not shown"}`;
}
byId("grid").addEventListener("mousemove", (event) => {
  const found = cellAt(grid.place, grid.cells, event);
  shade(found ? found[0] : grid.row);
  if (!found) return;
  const [y, x] = found;
  byId("cell").textContent = `“${readable(grid.rows[y].text)}” → “${readable(grid.columns[x].text)}”: ${grid.cells[y][x].toFixed(4)}`;
});
byId("grid").addEventListener("mouseleave", () => shade(grid.row));
byId("grid").addEventListener("click", (event) => {
  const found = cellAt(grid.place, grid.cells, event);
  if (found) choose({ [spot()]: grid.rows[found[0]].start });
});
function row(by) {
  const next = grid.rows[Math.max(0, Math.min(grid.rows.length - 1, grid.row + by))];
  return next ? { [spot()]: next.start } : {};
}
function turned() {
  const kinds = Object.keys(data.trace.attention);
  return { kind: kinds[(kinds.indexOf(state.kind) + 1) % kinds.length] };
}
const KEYS = {
  ArrowLeft: () => ({ head: state.head - 1 }), ArrowRight: () => ({ head: state.head + 1 }),
  ArrowUp: () => ({ layer: state.layer - 1 }), ArrowDown: () => ({ layer: state.layer + 1 }),
  ",": () => row(-1), ".": () => row(1), k: turned, w: () => ({ words: !state.words }),
};
byId("grid").addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "o") { turn([headId(state.kind, state.layer, state.head)]); return; }
  if (!Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  choose(KEYS[event.key]());
});
for (const name of ["words", "marks", "shift"]) {
  byId(name).addEventListener("change", () => choose({ [name]: byId(name).checked }));
}

// ---- all heads ----

// Switch heads off if any of them is on, else on.
function turn(heads) {
  const off = heads.some((one) => !state.off.has(one));
  for (const one of heads) { if (off) state.off.add(one); else state.off.delete(one); }
  act("search");
}
function drawThumbs() {
  const { kind } = state;
  const [layers, heads] = data.trace.attention[kind].shape;
  const [rows, columns] = groups(kind);
  const cell = Math.max(1, Math.min(12, Math.floor(88 / Math.max(rows.length, columns.length))));
  if (watcher) watcher.disconnect();
  // A thumbnail is drawn when it comes near the screen.
  watcher = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      const [, layer, head] = target.dataset.of.split("-").map(Number);
      drawGrid(target, cells(kind, layer, head, rows, columns), rows, columns, { cell });
    }
  }, { rootMargin: "200px" });
  byId("thumbs").replaceChildren(...Array.from({ length: layers }, (_, layer) => {
    const ids = Array.from({ length: heads }, (_, head) => headId(kind, layer, head));
    const whole = el("button", { type: "button" }, ids.every((one) => state.off.has(one)) ? "on" : "off");
    whole.setAttribute("aria-label", `Switch layer ${layer + 1} of ${kind} attention ${whole.textContent}`);
    whole.addEventListener("click", () => turn(ids));
    return el("div", { class: "layer" }, el("span", { class: "name" }, `layer ${layer + 1}`, whole),
      ...ids.map((id, head) => thumb(id, layer, head, cell * columns.length, cell * rows.length)));
  }));
  byId("all-on").hidden = state.off.size === 0;
}
function thumb(id, layer, head, width, height) {
  const name = `layer ${layer + 1}, head ${head + 1}`;
  const canvas = el("canvas", { "data-of": id, "aria-hidden": "true" });
  canvas.style.width = `${width + 1}px`;
  canvas.style.height = `${height + 1}px`;
  watcher.observe(canvas);
  const button = el("button", { type: "button", "data-head": id, title: name, "aria-label": name }, canvas);
  const chosen = layer === state.layer && head === state.head;
  button.setAttribute("aria-pressed", String(chosen));
  button.addEventListener("click", () => choose({ layer, head }));
  const on = el("input", { type: "checkbox", "aria-label": `${name} is on`, "data-switch": id });
  on.checked = !state.off.has(id);
  on.addEventListener("change", () => turn([id]));
  const entropy = data.heads[state.kind].entropy[layer][head].toFixed(2);
  return el("div", { class: state.off.has(id) ? "head off" : "head" }, button,
    el("label", {}, on, `${head + 1}: ${entropy} bits`));
}
byId("all-on").addEventListener("click", () => { state.off.clear(); act("search"); });
export function redraw() { if (data) show(data, act); }
