// What an answer depends on: gradient × input beside attention rollout; of a classifier, each word.
import { byRow, colour, drawGrid, el, groupsOf, merged, percent, readable, rowOf } from "/static/parts.js";
import { state } from "/static/view.js";

const byId = (id) => document.getElementById(id);
const MOST = 30; // words of a table
const LEAST = 0.0005; // log-odds: less is shown as 0.000

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
  const rows = trace.source.words.map(([word], i) => [word, leftOut[i], gradient[i]]);
  const label = el("bdi", { dir: "auto" }, labels[row]);
  const found = [text, el("p", { class: "hint" }, "For and against “", label,
    `” (${percent(trace.probabilities[labels[row]])}), in log-odds: how far they fall without the word, and the estimate by the gradient.`),
    reasons("the words", rows)];
  return data.parts ? [...found, ...shares(data.parts, row, labels[row])] : found;
}
// Words with what their absence changes, the largest first, and the estimate by the gradient.
export function reasons(name, found) {
  const most = Math.max(1e-30, ...found.map(([, fall]) => Math.abs(fall)));
  const order = [...found].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, MOST);
  const rows = order.map(([word, fall, gradient]) => el("tr", {}, named(word),
    el("td", {}, fall.toFixed(3)), bar(fall, most), el("td", {}, gradient.toFixed(3))));
  return table(`${name}${found.length > MOST ? `: the ${MOST} largest of ${found.length}` : ""}`,
    ["word", "without it", "", "gradient × input"], rows);
}
// The parts of a label's log-odds: they add up.
function shares({ encoder, ngrams, each }, row, label) {
  const parts = [["the encoder", encoder[row]], ["all n-grams", ngrams[row]]];
  const lines = (some) => {
    const most = Math.max(1e-30, ...some.map(([, value]) => Math.abs(value)));
    return some.map(([text, value]) => el("tr", {}, named(text), el("td", {}, value.toFixed(3)), bar(value, most)));
  };
  const counted = each.filter(([, values]) => Math.abs(values[row]) >= LEAST);
  const single = counted.map(([text, values]) => [text, values[row]]).slice(0, MOST);
  const rest = each.length - single.length;
  return [el("h3", {}, "Encoder and n-grams"),
    el("p", { class: "hint" }, "Two models vote: the encoder, which reads the whole text, and n-grams of words, each wherever it stands. The parts add up to the log-odds of “", el("bdi", { dir: "auto" }, label), "”."),
    el("div", { class: "columns" }, table("the parts", ["part", "log-odds", ""], lines(parts)),
      table(`the n-grams, the largest first${rest ? `; ${rest} more add little or nothing` : ""}`, ["n-gram", "log-odds", ""], lines(single)))];
}
function named(text) { return el("th", { scope: "row", class: "plain" }, el("bdi", { dir: "auto" }, readable(text))); }
function bar(value, most) {
  const made = el("div", value < 0 ? { class: "against" } : {});
  made.style.width = `${(100 * Math.abs(value)) / most}%`;
  return el("td", { class: "bar" }, made);
}
function table(caption, names, rows) {
  const head = names.map((name) => (name ? el("th", { scope: "col" }, name) : el("td")));
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)));
}
