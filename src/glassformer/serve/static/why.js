// Why a token was written, or why it and not another one: words left out, and gradient × input.
import { post } from "/static/api.js";
import { el, pathTo, percent, readable } from "/static/parts.js";
import { reasons } from "/static/saliency.js";
import { told } from "/static/step.js";
import { state } from "/static/view.js";

const byId = (id) => document.getElementById(id);
let data = null, request = null, running = null;

export function show(shown, body) {
  [data, request] = [shown, body];
  byId("s-why").hidden = !data.trace.target;
  if (!data.trace.target) return;
  const { tokens } = data.trace.target, first = data.prompt || 0;
  byId("why-step").replaceChildren(...tokens.flatMap((token, i) =>
    (i < first ? [] : [el("option", { value: i }, readable(token))])));
  choose(Math.max(first, Math.min(state.step, tokens.length - 1)));
}
function choose(step) {
  byId("why-step").value = step;
  const { nodes, answer, vocabulary, target } = data.trace;
  const path = [0, ...pathTo(nodes, answer)];
  const next = path[step] in nodes ? nodes[path[step]].next : [];
  const others = next.filter(([token]) => token !== target.ids[step]);
  byId("why-against").replaceChildren(el("option", { value: "" }, "any other"),
    ...others.map(([token, logProbability]) =>
      el("option", { value: token }, `${readable(vocabulary[token])} (${percent(Math.exp(logProbability))})`)));
  if (byId("s-why").open) load();
}
async function load() {
  if (running) running.abort();
  running = new AbortController();
  const step = Number(byId("why-step").value), against = byId("why-against").value;
  const body = { ...request, step, ...(against ? { against: Number(against) } : {}) };
  byId("reasons").ariaBusy = "true";
  try {
    draw(await post("/api/why", body, running.signal), step);
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("reasons").replaceChildren(told(error));
  }
  byId("reasons").ariaBusy = "false";
}
function draw(found, step) {
  const chosen = readable(data.trace.target.tokens[step]), select = byId("why-against");
  const times = Math.exp(Math.abs(found.value));
  const ratio = `${times < 1e6 ? times.toPrecision(3) : times.toExponential(1)} times as likely as`;
  const other = select.value && readable(data.trace.vocabulary[select.value]);
  byId("why-value").textContent = !other ? `The log-odds of “${chosen}” are ${found.value.toFixed(3)}.`
    : found.value >= 0 ? `“${chosen}” is ${ratio} “${other}”.` : `“${other}” is ${ratio} “${chosen}”.`;
  const tables = Object.keys(found.left_out).map((name) => {
    const side = name === "source" ? data.trace.source : data.read;
    const words = side.words.filter(([, start]) => name === "source" || (start > 0 && start <= step));
    const rows = words.map(([text, start, end], i) => [text, found.left_out[name][i],
      found.gradient[name].slice(start, end).reduce((a, b) => a + b, 0)]);
    return reasons(name === "source" ? "the source" : "the output so far", rows);
  });
  byId("reasons").replaceChildren(el("div", { class: "columns" }, ...tables));
}
byId("why-step").addEventListener("change", () => choose(Number(byId("why-step").value)));
byId("why-against").addEventListener("change", load);
byId("s-why").addEventListener("toggle", () => { if (byId("s-why").open && data) load(); });
