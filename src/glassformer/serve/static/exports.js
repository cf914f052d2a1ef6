// Files of what is shown: the head as SVG, PNG and CSV, the trace, and one HTML page.
import { colour, el, readable, svg } from "/static/parts.js";
import { current } from "/static/attention.js";
import { post } from "/static/api.js";
import { state } from "/static/view.js";

const CELL = 24, LETTER = 13; // pixels
const name = (suffix) => `${state.kind}-layer${state.layer + 1}-head${state.head + 1}.${suffix}`;

function save(file, blob) {
  const link = el("a", { href: URL.createObjectURL(blob), download: file });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
function asSvg() {
  const { rows, columns, cells } = current();
  const longest = (groups) => 8 * Math.max(1, ...groups.map((group) => Array.from(group.text).length));
  const left = longest(rows) + 8, top = longest(columns) + 8;
  const width = left + CELL * columns.length + 1, height = top + CELL * rows.length + 1;
  const ink = colour("--ink"), font = { "font-family": "sans-serif", "font-size": LETTER, fill: ink };
  const picture = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` },
    svg("rect", { width, height, fill: colour("--page") }));
  cells.forEach((row, y) => row.forEach((value, x) => picture.append(svg("rect", {
    x: left + x * CELL, y: top + y * CELL, width: CELL, height: CELL,
    fill: colour("--for"), "fill-opacity": value.toFixed(5) }))));
  rows.forEach((group, y) => picture.append(svg("text", { ...font, x: left - 5, y: top + (y + 0.7) * CELL, "text-anchor": "end" }, readable(group.text))));
  columns.forEach((group, x) => {
    const at = `${left + (x + 0.7) * CELL} ${top - 5}`;
    picture.append(svg("text", { ...font, transform: `translate(${at}) rotate(-90)` }, readable(group.text)));
  });
  return new XMLSerializer().serializeToString(picture);
}
function asCsv() {
  const { rows, columns, cells } = current();
  // A cell of a table that begins with one of these would be a formula.
  const quoted = (text) => `"${readable(text).replace(/^([=+\-@])/, "'$1").replaceAll('"', '""')}"`;
  const head = ["", ...columns.map((group) => quoted(group.text))].join(",");
  return [head, ...rows.map((group, y) => [quoted(group.text), ...cells[y].map((value) => value.toFixed(6))].join(","))].join("\n");
}
export function list(place, data, request, fail) {
  const kinds = {
    "SVG of this head": () => save(name("svg"), new Blob([asSvg()], { type: "image/svg+xml" })),
    "PNG of this head": () => document.getElementById("grid").toBlob((blob) => save(name("png"), blob)),
    "CSV of this head": () => save(name("csv"), new Blob([asCsv()], { type: "text/csv" })),
    "the trace (JSON)": () => save("trace.json", new Blob([JSON.stringify(data.trace)], { type: "application/json" })),
    "one HTML page": async () => {
      const { html } = await post("/api/report", request);
      save("inspect.html", new Blob([html], { type: "text/html" }));
    },
  };
  place.replaceChildren(...Object.entries(kinds).map(([label, make]) => {
    const button = el("button", { type: "button" }, label);
    button.addEventListener("click", () => Promise.resolve(make()).catch(fail));
    return button;
  }));
}
