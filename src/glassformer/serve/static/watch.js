// Trainings of this machine as they go on, and what the lab found.
import { get } from "/static/api.js";
import { el, svg } from "/static/parts.js";

const byId = (id) => document.getElementById(id);
const AGAIN = 5_000; // milliseconds: a training writes a record every few seconds at most
const WIDTH = 360, HEIGHT = 160, LEFT = 56, BOTTOM = 24, TOP = 8; // pixels of a curve
const NAMES = { train_loss: "training loss", valid_loss: "validation loss", valid_bleu: "BLEU", valid_accuracy: "accuracy, %" };
let timer = 0;

export async function start() {
  const [{ runs }, { findings }] = await Promise.all([get("/api/runs"), get("/api/lab")]);
  byId("s-watch").hidden = !runs.length && !findings.length;
  draw(runs);
  byId("findings").replaceChildren(...(findings.length ? [verdicts(findings)] : []));
}
async function again() {
  if (!byId("s-watch").open) return;
  try {
    draw((await get("/api/runs")).runs);
    byId("watch-state").textContent = "";
  } catch (error) {
    byId("watch-state").textContent = error.what || String(error);
  }
  timer = setTimeout(again, AGAIN);
}
function ago(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h ago` : `${Math.round(seconds / 86_400)} days ago`;
}
function draw(runs) {
  const open = new Set([...byId("runs").querySelectorAll("details[open]")].map((one) => one.dataset.run));
  byId("runs").replaceChildren(...runs.map((run, i) => {
    const figures = Object.entries(run.curves).map(([name, points]) => el("figure", {},
      el("figcaption", {}, `${NAMES[name]}: ${points[points.length - 1][1].toPrecision(4)}`), curve(points, NAMES[name])));
    const made = el("details", { "data-run": run.name }, el("summary", {}, el("bdi", {}, run.name),
      ` — step ${run.step.toLocaleString("en")}, last record ${ago(run.seconds_ago)}`), el("div", { class: "columns" }, ...figures));
    made.open = byId("runs").childElementCount ? open.has(run.name) : i === 0;
    return made;
  }));
}
function curve(points, name) {
  const steps = points.map(([step]) => step), values = points.map(([, value]) => value);
  const [first, last] = [Math.min(...steps), Math.max(...steps)], [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (step) => LEFT + ((step - first) / Math.max(1, last - first)) * (WIDTH - LEFT - 8);
  const y = (value) => TOP + (1 - (value - low) / Math.max(1e-12, high - low)) * (HEIGHT - TOP - BOTTOM);
  const label = (text, at, anchor) => svg("text", { ...at, "text-anchor": anchor, class: "p" }, text);
  const path = points.map(([step, value], i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", class: "curve",
    "aria-label": `${name} from step ${first} to ${last}: from ${values[0].toPrecision(4)} to ${values[values.length - 1].toPrecision(4)}` },
    svg("path", { d: path, class: "edge answer" }),
    label(high.toPrecision(3), { x: LEFT - 6, y: y(high) + 8 }, "end"), label(low.toPrecision(3), { x: LEFT - 6, y: y(low) }, "end"),
    label(`step ${first.toLocaleString("en")}`, { x: LEFT, y: HEIGHT - 6 }, "start"), label(last.toLocaleString("en"), { x: WIDTH - 8, y: HEIGHT - 6 }, "end"));
}
function verdicts(findings) {
  const rows = findings.map((one) => el("tr", {}, el("th", { scope: "row", class: "plain" }, one.title),
    el("td", { class: "text" }, one.outcome + (one.quick ? " (quick run)" : "")), el("td", { class: "text" }, one.because)));
  const head = ["experiment", "verdict", "because"].map((name) => el("th", { scope: "col", class: "text" }, name));
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": "h-lab" },
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)));
}
byId("s-watch").addEventListener("toggle", () => { clearTimeout(timer); again(); });
