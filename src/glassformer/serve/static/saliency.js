// What an answer depends on: gradient × input beside attention rollout; of a classifier, each word.
import { byRow, colour, drawGrid, el, groupsOf, merged, percent, readable, rowOf } from "/static/parts.js";
import { state } from "/static/view.js";

const byId = (id) => document.getElementById(id);
const MOST = 30; // words of a table

export function show(data) {
  byId("caution").textContent = data.caution;
  byId("saliency").replaceChildren(...(data.trace.kind === "classifier" ? decision(data) : maps(data)));
}
export function maps(data) {
  const { trace, read, rollout } = data;
  const names = Object.keys(trace.saliency);
  const rows = groupsOf(trace.target, state.words, state.marks);
  const sides = names.map((name) => groupsOf(name === "source" ? trace.source : read, state.words, state.marks));
  const methods = [["gradient × input", trace.saliency, "--for"], ["attention rollout", rollout, "--for"]];
  const row = Math.max(0, rowOf(rows, state.step));
  const found = methods.flatMap(([method, values, tone]) => {
    const shades = byRow(names.map((name, i) => merged(values[name], rows, sides[i])));
    return names.map((name, i) => {
      const canvas = el("canvas", { role: "img", "aria-label": `${method} of the ${name} tokens` });
      const whose = name === "source" ? "the source" : "the output so far";
      const figure = el("figure", {}, el("figcaption", {}, `${method}: ${whose}`), el("div", { class: "scroll" }, canvas));
      return [figure, canvas, shades[i], sides[i], tone];
    });
  });
  const width = Math.min(560, byId("saliency").clientWidth - 12);
  for (const [, canvas, shades, side, tone] of found) drawGrid(canvas, shades, rows, side, { row, tone, width });
  return [el("div", { class: "columns" }, ...found.map(([figure]) => figure)), el("p", { class: "hint" },
    "A row is an output token, divided by its largest value. Rollout follows attention through all layers and has no sign. With gradient × input the second colour is against the token.")];
}
function decision(data) {
  const { trace } = data, labels = Object.keys(trace.probabilities);
  const row = labels.reduce((best, label, i) =>
    (trace.probabilities[label] > trace.probabilities[labels[best]] ? i : best), 0);
  const leftOut = trace.saliency.left_out[row];
  const most = Math.max(1e-30, ...leftOut.map(Math.abs));
  const gradient = trace.source.words.map(([, start, end]) =>
    trace.saliency.source[row].slice(start, end).reduce((a, b) => a + b, 0));
  const text = el("p", { dir: "auto" }, ...trace.source.words.map(([word], i) => {
    const token = el("span", { class: "token", dir: "auto", title: leftOut[i].toFixed(3) }, readable(word));
    const tone = colour(leftOut[i] >= 0 ? "--for" : "--against");
    token.style.boxShadow = `inset 0 -4px color-mix(in srgb, ${tone} ${Math.round((100 * Math.abs(leftOut[i])) / most)}%, transparent)`;
    return token;
  }));
  const order = leftOut.map((_, i) => i).sort((a, b) => Math.abs(leftOut[b]) - Math.abs(leftOut[a]));
  const rows = order.slice(0, MOST).map((i) => {
    const bar = el("div", leftOut[i] < 0 ? { class: "against" } : {});
    bar.style.width = `${(100 * Math.abs(leftOut[i])) / most}%`;
    return el("tr", {}, el("td", {}, el("bdi", { dir: "auto" }, readable(trace.source.words[i][0]))),
      el("td", {}, leftOut[i].toFixed(3)), el("td", { class: "bar" }, bar), el("td", {}, gradient[i].toFixed(3)));
  });
  const caption = el("caption", {}, "For and against “", el("bdi", { dir: "auto" }, labels[row]),
    `” (${percent(trace.probabilities[labels[row]])}), in log-odds: how far they fall without the word, and the estimate by the gradient.`);
  const head = el("tr", {}, ...["word", "without it", "", "gradient × input"].map((name) => el("th", { scope: "col" }, name)));
  return [text, el("div", { class: "scroll" }, el("table", {}, caption, el("thead", {}, head), el("tbody", {}, ...rows)))];
}
