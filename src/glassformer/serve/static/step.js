// Inside one step of the head that is looked at: numbers, equations, and the lines that compute them.
import { post } from "/static/api.js";
import { cellAt, drawGrid, el, readable, textOn } from "/static/parts.js";
import { state } from "/static/view.js";

const byId = (id) => document.getElementById(id);
const PAUSE = 250, HIGH = 24, NUMBERED = 44; // milliseconds; pixels of a row, and of a cell with a number
let data = null, request = null, running = null, timer = 0, found = null;

export function show(shown, body) {
  [data, request, found] = [shown, body, null];
  byId("s-step").open = state.inside;
  refresh();
}
export function refresh() {
  clearTimeout(timer);
  if (data && byId("s-step").open) timer = setTimeout(load, PAUSE);
}
export function redraw() { if (found) draw(); }
async function load() {
  if (running) running.abort();
  running = new AbortController();
  const head = [state.kind, state.layer, state.head];
  const row = state.kind === "encoder" ? state.position : state.step;
  const rows = (state.kind === "encoder" ? data.trace.source : data.trace.target).ids.length;
  byId("step").ariaBusy = "true";
  try {
    found = await post("/api/step", { ...request, head, row: Math.min(row, rows - 1) }, running.signal);
    byId("step").ariaBusy = "false";
    draw();
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("step").ariaBusy = "false";
    byId("step").replaceChildren(told(error));
  }
}
export function told(error) {
  return el("p", { class: "problem" }, [error.what || String(error), error.why, error.next].filter(Boolean).join("\n"));
}
function draw() {
  const side = found.head[0] === "encoder" ? data.trace.source : data.trace.target;
  const [kind, layer, head] = found.head;
  const what = kind === "encoder" ? "reads" : "writes";
  byId("step-name").textContent = `${kind} attention, layer ${layer + 1}, head ${head + 1}: the step that ${what} “${readable(side.tokens[found.row])}”`;
  const made = found.stages.map(stage);
  byId("step").replaceChildren(...made.map(([section]) => section));
  for (const [, paint] of made) paint();
}
function namesOf(stage) {
  const count = Object.values(stage.rows)[0].length;
  if (stage.columns === "output token") return found.likely;
  if (stage.columns !== "token") return Array.from({ length: count }, () => "");
  return (found.head[0] === "decoder" ? data.read : data.trace.source).tokens.slice(0, count);
}
function stage(one, number) {
  const canvas = el("canvas", { role: "img" }), numbers = el("output", { class: "hint" });
  const names = Object.keys(one.rows), values = Object.values(one.rows);
  const ranges = names.map((name, y) =>
    `${name}: ${Math.min(...values[y]).toPrecision(3)} to ${Math.max(...values[y]).toPrecision(3)}`).join("; ");
  canvas.setAttribute("aria-label", `${one.name}. ${ranges}`);
  numbers.textContent = ranges;
  const section = el("section", { class: "stage", "aria-label": one.name },
    el("h3", {}, `${number + 1}. ${one.name} `, el("code", {}, one.equation)), el("p", { class: "hint" }, one.text),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": one.name }, canvas), numbers, ...one.code.map(source));
  const rows = names.map((text, y) => ({ text, start: y, end: y + 1 }));
  const columns = namesOf(one).map((text, x) => ({ text: readable(text), start: x, end: x + 1 }));
  const paint = () => {
    const most = values.map((row) => Math.max(1e-30, ...row.map(Math.abs)));
    const shades = values.map((row, y) => row.map((value) => value / most[y]));
    const place = drawGrid(canvas, shades, rows, columns, { width: byId("step").clientWidth - 12, high: HIGH });
    if (place.w >= NUMBERED) writeNumbers(canvas, place, values, shades);
    canvas.onmousemove = (event) => {
      const at = cellAt(place, shades, event);
      if (!at) { numbers.textContent = ranges; return; }
      const [y, x] = at;
      numbers.textContent = `${names[y]}, ${columns[x].text || `${one.columns} ${x + 1}`}: ${values[y][x].toPrecision(4)}`;
    };
    canvas.onmouseleave = () => { numbers.textContent = ranges; };
  };
  return [section, paint];
}
function writeNumbers(canvas, { left, top, w, h }, values, shades) {
  const context = canvas.getContext("2d");
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  values.forEach((row, y) => row.forEach((value, x) => {
    context.fillStyle = textOn(Math.abs(shades[y][x]), value < 0 ? "--against" : "--for");
    context.fillText(value === 0 ? "0" : value.toPrecision(2), left + (x + 0.5) * w, top + (y + 0.5) * h);
  }));
}
// A function of our source, with the lines that compute the stage marked.
function source(code) {
  const marked = new Set(code.marked);
  const lines = code.text.split("\n").flatMap((line, i) => {
    const number = code.first + i, text = `${String(number).padStart(4)}  ${line}`;
    return [marked.has(number) ? el("mark", {}, text) : text, "\n"];
  });
  const where = code.marked.length ? code.marked.join(", ") : String(code.first);
  const name = `glassformer/${code.path}, line ${where}: ${code.name}`;
  return el("details", { class: "code" }, el("summary", {}, name),
    el("pre", { class: "scroll", tabindex: "0", role: "group", "aria-label": name }, el("code", {}, ...lines)));
}
byId("s-step").addEventListener("toggle", () => {
  state.inside = byId("s-step").open;
  refresh();
});
