// The page: a model, a text, its answer while one types, and a look inside after a pause.
import { Problem, events, get, post } from "/static/api.js";
import * as attention from "/static/attention.js";
import * as exports from "/static/exports.js";
import * as lens from "/static/lens.js";
import { decoded, drawGrid, el, percent } from "/static/parts.js";
import * as step from "/static/step.js";
import * as saliency from "/static/saliency.js";
import * as search from "/static/search.js";
import * as tour from "/static/tour.js";
import * as watch from "/static/watch.js";
import * as why from "/static/why.js";
import { fromAddress, headsOff, state, toAddress } from "/static/view.js";

const byId = (id) => document.getElementById(id);
const ANSWER_AFTER = 120, LOOK_AFTER = 500; // milliseconds without a key
const EXAMPLES = {
  translator: { en: "A man is riding a red bicycle.", fr: "Un homme fait du vélo rouge." },
  classifier: "A dull film with one good scene.", "language model": "Once upon a time",
};
let models = [], shown = null, plain = null, running = null, looking = null, timers = [], took = "";

function modelOf(id) { return models.find((one) => one.id === id); }
function chosen() { return modelOf(state.model); }
function sourceOf(to) { return (chosen().directions.find(([, target]) => target === to) || [""])[0]; }

// ---- problems and progress ----

function fail(error) {
  if (error.name === "AbortError") return;
  const known = error instanceof Problem;
  const parts = known ? [error.what, error.why, error.next] : ["The page failed.", String(error), "Load it again."];
  byId("problem").textContent = parts.filter(Boolean).join("\n");
  byId("problem").hidden = false;
  byId("status").textContent = "";
  byId("inside").ariaBusy = "false";
  if (!known) console.error(error);
}
function status(text) { byId("status").textContent = text; }
function clear() { byId("problem").hidden = true; }

// ---- the answer ----

function later(task, pause) { timers.push(setTimeout(task, pause)); }
function changed() {
  timers.forEach(clearTimeout);
  timers = [];
  if (running) running.abort();
  if (looking) looking.abort();
  took = "";
  clear();
  toAddress();
  if (!state.text.trim()) {
    byId("answer").textContent = "";
    status("Type a text to see what the model makes of it.");
    byId("inside").hidden = true;
    return;
  }
  if (chosen().kind !== "language model") later(answer, ANSWER_AFTER);
  later(look, LOOK_AFTER);
}
async function answer() {
  running = new AbortController();
  const began = performance.now(), { signal } = running;
  try {
    if (chosen().kind === "classifier") {
      const { result } = await post("/api/classify", { q: state.text, model: state.model }, signal);
      byId("answer").textContent = `${result.label} (${percent(result.probability)})`;
    } else await translate(signal);
    took = `${Math.round(performance.now() - began)} ms`;
    status(byId("inside").ariaBusy === "true" ? `${took} · looking inside…` : took);
  } catch (error) { fail(error); }
}
// A long text appears sentence by sentence; the answer before it stays until the first has come.
async function translate(signal) {
  const body = { q: state.text, source: sourceOf(state.to), target: state.to, model: state.model, stream: true };
  let text = "";
  for await (const event of events("/translate", body, signal)) {
    text = event.translatedText ?? text + event.text;
    byId("answer").textContent = text;
  }
}
// A language model writes when it is told to; its text appears as it is made.
async function write(asMessage) {
  if (running) running.abort();
  running = new AbortController();
  clear();
  const text = state.text.trimEnd();
  const given = asMessage ? { messages: [{ role: "user", content: text }] } : { prompt: text };
  const body = { model: state.model, ...given, max_tokens: 120, stream: true,
    temperature: Number(byId("temperature").value), top_k: Number(byId("top-k").value), top_p: Number(byId("top-p").value) };
  byId("answer").textContent = asMessage ? "" : text;
  status("writing…");
  try {
    const path = asMessage ? "/v1/chat/completions" : "/v1/completions";
    for await (const event of events(path, body, running.signal)) {
      byId("answer").append(event.choices.map((one) => one.text ?? one.delta.content ?? "").join(""));
    }
    status("");
  } catch (error) { fail(error); }
}

// ---- the look inside ----

function request(more = {}) {
  const body = { model: state.model, text: state.text.trim(), heads_off: headsOff(), beam_size: state.beam, ...more };
  const { kind } = chosen();
  if (kind === "translator") body.to = state.to;
  if (kind === "classifier") delete body.beam_size; else body.prefix = state.prefix;
  if (kind === "language model") body.max_length = 40;
  if (state.reference.trim() && kind === "translator") body.reference = state.reference;
  return body;
}
// What a closer look at this answer asks for.
function place(found) {
  const { model, text, to, heads_off } = request();
  return { model, text, heads_off, ...(to ? { to } : {}), output: found.trace.target ? found.trace.target.ids : [] };
}
async function look() {
  looking = new AbortController();
  const { signal } = looking;
  status([took, "looking inside…"].filter(Boolean).join(" · "));
  byId("inside").ariaBusy = "true";
  try {
    const found = await post("/api/trace", request(), signal);
    const untouched = !state.off.size && !state.prefix.length;
    const whole = untouched ? found : await post("/api/trace", { ...request(), heads_off: [], prefix: [] }, signal);
    const other = state.compare && !chosen().int8 ? await post("/api/trace", request({ int8: true }), signal) : null;
    [shown, plain] = [found, whole];
    status(took);
    byId("inside").ariaBusy = "false";
    byId("inside").hidden = false;
    if (chosen().kind === "language model") byId("answer").textContent = found.trace.target.text;
    attention.show(found, act);
    search.show(found, act);
    lens.show(found);
    saliency.show(found);
    step.show(found, place(found));
    why.show(found, place(found));
    facts();
    changes(other);
    byId("tour-start").hidden = chosen().kind !== "translator";
    exports.list(byId("exports"), found, request(), fail);
    toAddress();
  } catch (error) { fail(error); }
}
function act(what) {
  toAddress();
  if (what === "view") step.refresh();
  if (what === "search") { if (looking) looking.abort(); clear(); look(); }
}
function outcome(found) {
  const { trace } = found;
  if (trace.kind !== "classifier") return trace.target.text;
  return Object.entries(trace.probabilities).map(([label, p]) => `${label} ${percent(p)}`).join(", ");
}
function facts() {
  const told = Object.entries(shown.summary).filter(([name]) => !["model", "text", "output"].includes(name));
  byId("facts").replaceChildren(...told.map(([name, value]) =>
    el("div", {}, el("span", {}, name), el("bdi", { dir: "auto" }, value))));
}
// The answer with all heads and a free search, with the changes, and in eight bits.
function changes(other) {
  const columns = [["answer", (found) => el("bdi", { dir: "auto" }, outcome(found))],
    ["log-probability", (found) => found.log_probability.toFixed(3)], ["BLEU", (found) => found.bleu.toFixed(1)]]
    .filter(([name]) => name === "answer" || (name === "BLEU" ? plain.bleu : plain.log_probability) !== undefined);
  const row = (name, found) => el("tr", {}, el("th", { scope: "row" }, name),
    ...columns.map(([column, of]) => el("td", column === "answer" ? { class: "text" } : {}, of(found))));
  const off = state.off.size ? `${state.off.size} ${state.off.size > 1 ? "heads" : "head"} off` : "";
  const forced = state.prefix.length ? `first ${state.prefix.length} forced` : "";
  const rows = [row("as it is", plain)];
  if (shown !== plain) rows.push(row([off, forced].filter(Boolean).join(", "), shown));
  if (other) rows.push(row("INT8", other));
  byId("changes").replaceChildren(el("thead", {}, el("tr", {}, el("td"), ...columns.map(([name]) =>
    el("th", { scope: "col" }, name)))), el("tbody", {}, ...rows));
  byId("other").replaceChildren();
  if (!other) return;
  const canvas = el("canvas", { role: "img", "aria-label": "The same head with weights in INT8" });
  byId("other").replaceChildren(el("figure", {}, el("figcaption", {},
    `the same head in INT8: ${state.kind}, layer ${state.layer + 1}, head ${state.head + 1}`), canvas));
  const packed = { [state.kind]: decoded(other.trace.attention[state.kind]) };
  const all = (side) => side.tokens.map((text, i) => ({ text: text.replace(/^▁(?=.)/, ""), start: i, end: i + 1 }));
  const sides = [state.kind === "encoder" ? other.trace.source : other.trace.target,
    state.kind === "decoder" ? other.read : other.trace.source].map(all);
  const cells = attention.cells(state.kind, state.layer, state.head, ...sides, other, packed);
  drawGrid(canvas, cells, ...sides, { width: Math.min(640, byId("other").clientWidth - 12) });
}

// ---- the choice of a model ----

function fill(select, names, value) {
  select.replaceChildren(...names.map(([key, name]) => el("option", { value: key }, name)));
  select.value = value;
}
function setModel(id, text) {
  state.model = id;
  const { kind, directions } = chosen();
  const targets = directions.map(([, to]) => to);
  if (!targets.includes(state.to)) state.to = targets[0] || "";
  fill(byId("direction"), directions.map(([from, to]) => [to, `${from} → ${to}`]), state.to);
  byId("direction-label").hidden = directions.length === 0;
  byId("beam-label").hidden = kind === "classifier";
  byId("compare-label").hidden = chosen().int8;
  byId("reference-label").hidden = kind !== "translator";
  for (const one of ["temperature-label", "top-k-label", "top-p-label", "continue"]) byId(one).hidden = kind !== "language model";
  byId("reply").hidden = !chosen().chat;
  const example = EXAMPLES[kind];
  state.text = text ?? (typeof example === "string" ? example : example[sourceOf(state.to)] || "");
  byId("model").value = id;
  byId("text").value = state.text;
}
function renewed() {
  Object.assign(state, { prefix: [], node: null, step: 0, position: 0 });
  changed();
}
function listen() {
  const on = (id, kind, change) => byId(id).addEventListener(kind, change);
  on("text", "input", () => { state.text = byId("text").value; renewed(); });
  on("model", "change", () => { state.off.clear(); state.chosenHead = false; state.reference = ""; byId("reference").value = ""; setModel(byId("model").value); renewed(); });
  on("direction", "change", () => { state.to = byId("direction").value; setModel(state.model); renewed(); });
  on("beam", "change", () => { if (byId("beam").checkValidity()) { state.beam = Number(byId("beam").value); act("search"); } });
  on("reference", "change", () => { state.reference = byId("reference").value; act("search"); });
  on("compare", "change", () => { state.compare = byId("compare").checked; act("search"); });
  on("continue", "click", () => write(false));
  on("reply", "click", () => write(true));
  tour.listen((kind) => attention.choose({ kind }));
  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; redraw(); } });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("unhandledrejection", (event) => { event.preventDefault(); fail(event.reason); });
}
function redraw() {
  if (!shown || byId("inside").hidden) return;
  attention.redraw();
  lens.show(shown);
  saliency.show(shown);
  step.redraw();
}
async function start() {
  status("loading the models…");
  fromAddress();
  listen();
  try {
    // A model of embeddings writes nothing that could be looked at.
    models = (await get("/v1/models")).data.filter((one) => one.kind !== "embedder");
    if (!models.length) throw new Problem("No model of this server writes or labels a text.", "The page looks inside translators, classifiers and language models.", "Start it with one: glassformer serve --model en-fr.");
    fill(byId("model"), models.map((one) => [one.id, `${one.id} (${one.kind})`]), "");
    const known = modelOf(state.model);
    setModel(known ? known.id : models[0].id, known && state.text ? state.text : undefined);
    byId("reference").value = state.reference;
    byId("compare").checked = state.compare;
    byId("beam").value = state.beam;
    changed();
    await watch.start();
  } catch (error) { fail(error); }
}
start();
