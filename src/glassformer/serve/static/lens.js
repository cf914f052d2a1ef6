// The logit lens: the token that each layer would write at each step.
import { colour, el, percent, readable, textOn } from "/static/parts.js";

const byId = (id) => document.getElementById(id);

export function show(data) {
  byId("s-lens").hidden = data.lens.length === 0;
  if (!data.lens.length) return;
  const written = data.trace.target.tokens;
  const head = el("tr", {}, el("th", { scope: "col" }, "writes"), ...written.map((token) =>
    el("th", { scope: "col" }, el("bdi", { dir: "auto" }, readable(token)))));
  const rows = data.lens.map((steps, layer) => el("tr", {},
    el("th", { scope: "row" }, layer === 0 ? "embedding" : `layer ${layer}`), ...steps.map(([token, p, own], step) => {
      const cell = el("td", token === written[step] ? { class: "same" } : {}, el("bdi", { dir: "auto" }, readable(token)));
      cell.style.background = `color-mix(in srgb, ${colour("--for")} ${(100 * p).toFixed(1)}%, transparent)`;
      cell.style.color = textOn(p);
      cell.setAttribute("title", `“${readable(token)}” ${percent(p)}; “${readable(written[step])}” ${percent(own)}`);
      return cell;
    })));
  byId("lens").replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows));
}
