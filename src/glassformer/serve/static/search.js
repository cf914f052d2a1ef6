// The search as a tree; what could follow a token; and forcing another one.
import { FATES, SIGNS, el, pathTo, percent, placed, readable, svg } from "/static/parts.js";
import { state } from "/static/view.js";

const byId = (id) => document.getElementById(id);
const ACROSS = 156, DOWN = 44; // pixels from a token to the next, and from line to line
const LONGEST = 14; // letters of a token in its box
let data = null, tree = null, act = () => {}, answer = new Set();

export function show(found, onChange) {
  data = found;
  act = onChange;
  const { nodes } = data.trace;
  byId("s-search").hidden = nodes.length === 0;
  if (!nodes.length) return;
  answer = new Set([0, ...pathTo(nodes, data.trace.answer)]);
  if (!(state.node in nodes)) state.node = leastSure();
  byId("pruned").checked = state.pruned;
  byId("free").hidden = state.prefix.length === 0;
  draw();
}
const fateOf = (i) => data.trace.nodes[i].fate;
function shown(i) { return state.pruned || answer.has(i) || fateOf(i) !== "pruned"; }
function probability(i) {
  const { nodes } = data.trace, { parent } = nodes[i];
  return parent === null ? 1 : Math.exp(nodes[i].log_probability - nodes[parent].log_probability);
}
function tokenOf(i) { return readable(data.trace.vocabulary[data.trace.nodes[i].token]); }
// The node of the answer whose next token was the least likely: there the model was least sure.
function leastSure() {
  const path = pathTo(data.trace.nodes, data.trace.answer);
  const least = path.reduce((a, b) => (probability(b) < probability(a) ? b : a));
  return data.trace.nodes[least].parent;
}
function draw() {
  const { nodes } = data.trace;
  tree = placed(nodes, shown, answer);
  if (!tree.at.has(state.node)) state.node = leastSure();
  const deepest = Math.max(...[...tree.at.values()].map((place) => place.x));
  const picture = svg("svg", { width: (deepest + 1) * ACROSS + 8, height: tree.lines * DOWN + 8 });
  const x = (i) => 4 + tree.at.get(i).x * ACROSS, y = (i) => 4 + tree.at.get(i).y * DOWN;
  for (const i of tree.at.keys()) {
    const { parent } = nodes[i];
    if (parent === null) continue;
    const a = x(parent) + ACROSS - 28, b = x(i), from = y(parent) + 18, to = y(i) + 18;
    picture.append(svg("path", { d: `M${a} ${from}C${a + 16} ${from} ${b - 16} ${to} ${b} ${to}`,
      class: answer.has(i) ? "edge answer" : "edge" }));
  }
  for (const i of tree.at.keys()) picture.append(box(i, x(i), y(i)));
  byId("tree").replaceChildren(picture);
  tell();
}
function box(i, x, y) {
  const letters = Array.from(tokenOf(i)), given = fateOf(i) === "given" || isForced(i);
  const name = letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}…` : letters.join("");
  const names = ["node", answer.has(i) && "answer", given && "given", i === state.node && "chosen",
    !["went on", "given", "best"].includes(fateOf(i)) && "dropped"].filter(Boolean);
  const made = svg("g", { class: names.join(" "), "data-node": i },
    svg("rect", { x, y, width: ACROSS - 28, height: 36, rx: 4 }),
    svg("text", { x: x + 8, y: y + 15 }, name),
    svg("text", { x: x + 8, y: y + 30, class: "p" }, `${percent(probability(i))}  ${SIGNS[fateOf(i)]} ${fateOf(i)}`),
    svg("title", {}, describe(i)));
  made.addEventListener("click", () => select(i));
  return made;
}
function isForced(i) {
  const path = pathTo(data.trace.nodes, i);
  return path.length > 0 && path.length <= state.prefix.length;
}
function describe(i) {
  const node = data.trace.nodes[i];
  const text = pathTo(data.trace.nodes, i).map(tokenOf).join(" ") || "the beginning";
  const end = node.complete === false ? " It was cut off at the length limit." : "";
  return `${text} — log-probability ${node.log_probability.toFixed(3)}, score ${node.score.toFixed(3)}. ` +
    `${node.fate}: ${FATES[node.fate]}.${end}`;
}
function select(i) {
  state.node = i;
  for (const made of byId("tree").querySelectorAll(".node")) made.classList.toggle("chosen", Number(made.dataset.node) === i);
  tell();
  act("view");
}
// What could follow the node that is looked at; each token can be forced.
function tell() {
  const { nodes, vocabulary, kind, source } = data.trace, node = nodes[state.node];
  byId("node").textContent = describe(state.node);
  const path = pathTo(nodes, state.node);
  const read = kind === "language-model" && source === null ? data.prompt || 0 : 0;
  const followers = new Map(nodes.flatMap((one, i) => (one.parent === state.node && answer.has(i) ? [[one.token, i]] : [])));
  const rows = node.next.map(([token, logProbability]) => {
    const p = Math.exp(logProbability), bar = el("div");
    bar.style.width = `${100 * p}%`;
    const name = readable(vocabulary[token]);
    const force = el("button", { type: "button", class: "token", dir: "auto", "data-force": token }, name);
    force.setAttribute("aria-label", `Force “${name}” and go on`);
    if (data.marks.includes(token) || path.length < read) force.disabled = true;
    force.addEventListener("click", () => {
      state.prefix = [...path.slice(read).map((i) => nodes[i].token), token];
      state.node = null;
      act("search");
    });
    return el("tr", {}, el("td", { class: followers.has(token) ? "text chosen" : "text" }, force),
      el("td", {}, percent(p)), el("td", { class: "bar" }, bar));
  });
  const caption = rows.length ? "What could follow, by probability; what the answer took is bold. Press a token to force it."
    : "What could follow was not computed here: this branch had ended.";
  byId("follow").textContent = caption;
  byId("next").replaceChildren(...rows);
}
function moved(key) {
  const place = tree.at.get(state.node);
  if (key === "ArrowLeft") return data.trace.nodes[state.node].parent;
  if (key === "ArrowRight") return tree.children[state.node][0];
  const level = [...tree.at].filter(([, other]) => other.x === place.x).sort((a, b) => a[1].y - b[1].y);
  const next = level[level.findIndex(([i]) => i === state.node) + (key === "ArrowDown" ? 1 : -1)];
  return next && next[0];
}
byId("tree").addEventListener("keydown", (event) => {
  if (!event.key.startsWith("Arrow") || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  const next = moved(event.key);
  if (next === undefined || next === null) return;
  select(next);
  byId("tree").querySelector(`[data-node="${next}"]`).scrollIntoView({ block: "nearest", inline: "nearest" });
});
byId("pruned").addEventListener("change", () => { state.pruned = byId("pruned").checked; draw(); act("view"); });
byId("free").addEventListener("click", () => { state.prefix = []; state.node = null; act("search"); });
