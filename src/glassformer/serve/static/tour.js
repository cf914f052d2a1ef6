// A tour through a translation in eight steps, for readers who know the paper a little.
import { el } from "/static/parts.js";

const byId = (id) => document.getElementById(id);
// Each step: the section that it shows, a heading, a text, and the kind of attention to choose.
const STEPS = [
  ["text", "A text goes in", "The text is cut into subwords: frequent words whole, rare ones in pieces. Each becomes a vector, and a code of its position is added, because attention itself knows no order."],
  ["h-attention", "The encoder reads it", "Every row is a token, every column a token that it takes information from: softmax(QKᵀ/√d_k). A strong colour is a large weight; the weights of a row add up to 1.", "encoder"],
  ["thumbs", "Many heads look at once", "Each layer has several heads with projections of their own. Some look at the neighbour, some spread out: the entropy below each picture says how sharp it is."],
  ["h-attention", "The decoder looks back", "The output is written token by token. A row sees the tokens before it only: everything right of the diagonal is masked. Row t writes token t, and has read the one before.", "decoder"],
  ["h-attention", "And looks at the source", "Cross-attention joins the two: queries of the output, keys and values of the source. In the best head you can read off which word translates which.", "cross"],
  ["h-search", "A search chooses the words", "The most likely token at each step need not give the most likely sentence. A beam keeps several beginnings; grey ones were overtaken. Press a token below the tree to force it, and see how the rest changes."],
  ["h-saliency", "What did it depend on?", "Attention shows where a model looks, not what its answer depends on. Gradient × input asks how the answer changes with each word. Compare the two."],
  ["thumbs", "Change it yourself", "Switch a head off, or a whole layer, and see in the table at the end what becomes of the answer and its probability. Most heads are hardly missed; a few are."],
];
let at = -1, opener = null, choose = () => {};

export function listen(onChoose) {
  choose = onChoose;
  byId("tour-start").addEventListener("click", (event) => { opener = event.currentTarget; go(0); });
  byId("tour-back").addEventListener("click", () => go(at - 1));
  byId("tour-next").addEventListener("click", () => go(at + 1));
  byId("tour-close").addEventListener("click", close);
  byId("tour").addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key === "ArrowRight") go(at + 1);
    if (event.key === "ArrowLeft") go(at - 1);
  });
}
function close() {
  byId("tour").hidden = true;
  at = -1;
  if (opener) opener.focus();
}
function go(step) {
  if (step < 0) return;
  if (step >= STEPS.length) { close(); return; }
  at = step;
  const [place, heading, text, kind] = STEPS[step];
  if (kind) choose(kind);
  byId("tour-text").replaceChildren(
    el("p", { class: "hint" }, `step ${step + 1} of ${STEPS.length}`), el("p", { class: "strong" }, heading), el("p", {}, text));
  byId("tour-back").disabled = step === 0;
  byId("tour-next").textContent = step === STEPS.length - 1 ? "End" : "Next";
  byId("tour").hidden = false;
  byId("tour-next").focus({ preventScroll: true });
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  byId(place).scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
}
