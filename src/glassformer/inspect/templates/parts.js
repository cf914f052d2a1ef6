// What the report of `inspect` and the page of `serve` share: numbers out of a trace, and pictures.
// Text of the model is only ever set as text; nothing here is parsed as HTML.

// ---- numbers out of the trace ----

export function decoded(packed) {
  const bytes = atob(packed.data);
  const values = new Float64Array(bytes.length / 2);
  for (let i = 0; i < values.length; i++) {
    values[i] = (bytes.charCodeAt(2 * i) + 256 * bytes.charCodeAt(2 * i + 1)) / 65535;
  }
  return values;
}

export function headOf(packed, values, layer, head) {
  const [, heads, rows, columns] = packed.shape;
  const start = (layer * heads + head) * rows * columns;
  return Array.from({ length: rows }, (_, t) =>
    Array.from(values.subarray(start + t * columns, start + (t + 1) * columns)));
}

export function groupsOf(side, words, marks) {
  const inWord = new Set();
  for (const [, start, end] of side.words) for (let t = start; t < end; t++) inWord.add(t);
  const groups = words ? side.words.map(([text, start, end]) => ({ text, start, end })) : [];
  side.tokens.forEach((token, t) => {
    if (inWord.has(t) ? !words : marks) groups.push({ text: readable(token), start: t, end: t + 1 });
  });
  return groups.sort((a, b) => a.start - b.start);
}

export function merged(cells, rows, columns) {
  const sum = (row, g) => { let s = 0; for (let c = g.start; c < g.end; c++) s += row[c]; return s; };
  return rows.map((r) => columns.map((g) => {
    let s = 0;
    for (let t = r.start; t < r.end; t++) s += sum(cells[t], g);
    return s / (r.end - r.start);
  }));
}

// [source, target, attention] for each row: where it attends to most, or has the largest share.
export function linksOf(cells, share) {
  const totals = cells.reduce((sums, row) => row.map((value, x) => sums[x] + value),
    (cells[0] || []).map(() => 0));
  return cells.flatMap((row, target) => {
    const values = share ? row.map((value, x) => (totals[x] > 0 ? value / totals[x] : 0)) : row;
    const most = Math.max(...values);
    const source = values.indexOf(most);
    return most > 0 ? [[source, target, row[source]]] : [];
  });
}

// Each row over its largest magnitude in any of the panels, so that they can be compared.
export function byRow(panels) {
  const most = panels[0].map((_, y) =>
    Math.max(1e-30, ...panels.flatMap((cells) => cells[y].map(Math.abs))));
  return panels.map((cells) => cells.map((row, y) => row.map((value) => value / most[y])));
}

export function readable(token) {
  const text = token.startsWith("▁") && token.length > 1 ? token.slice(1) : token;
  return text.replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}

export function short(text) {
  const letters = Array.from(text);
  return letters.length > 20 ? `${letters.slice(0, 19).join("")}…` : text;
}

export function percent(p) {
  return p >= 0.0995 ? `${(100 * p).toFixed(0)}%` : p >= 0.00095 ? `${(100 * p).toFixed(1)}%` : "<0.1%";
}

// Where each node of the tree stands: x its depth, y its line. A node and its best descendants are a
// branch, which stands in one line; the answer, `path`, along the top, and every other branch in the
// first line below the one that it leaves where there is room for it.
export function placed(nodes, isShown, path = new Set()) {
  const children = nodes.map(() => []);
  nodes.forEach((node, i) => { if (node.parent !== null && isShown(i)) children[node.parent].push(i); });
  for (const some of children) {
    some.sort((a, b) => path.has(b) - path.has(a) || nodes[b].log_probability - nodes[a].log_probability);
  }
  const at = new Map(), taken = []; // of each line, the depths [from, to] that are taken
  const isFree = (line, from, to) => (taken[line] || []).every(([a, b]) => to < a || b < from);
  const branches = [[0, 0, 0]]; // first node, its depth, the least line
  while (branches.length) {
    const [first, from, least] = branches.pop();
    const branch = [first];
    while (children[branch[branch.length - 1]].length) branch.push(children[branch[branch.length - 1]][0]);
    const to = from + branch.length - 1;
    let line = least;
    while (!isFree(line, from - 1, to)) line++;
    (taken[line] ||= []).push([from, to]);
    branch.forEach((node, n) => at.set(node, { x: from + n, y: line }));
    // The last one is taken first: branches that leave at the end stand nearest.
    branch.forEach((node, n) => children[node].slice(1).reverse().forEach((child) =>
      branches.push([child, from + n + 1, line + 1])));
  }
  return { at, children, lines: taken.length };
}

export function pathTo(nodes, last) {
  const found = [];
  for (let i = last; i !== null && nodes[i].parent !== null; i = nodes[i].parent) found.push(i);
  return found.reverse();
}

export const FATES = {
  "went on": "a continuation stayed in the beam or finished",
  "best": "finished as the answer",
  "finished": "finished as another of the n best",
  "outscored": "finished, with a lower score than the n best",
  "pruned": "not among the best of its step",
  "overtaken": "in the beam, but no continuation stayed in it",
  "given up": "in the beam when no hypothesis could beat the finished ones",
  "given": "part of a forced target, without search",
};
export const SIGNS = {
  "went on": "→", "best": "★", "finished": "☆", "outscored": "▽", "pruned": "✕",
  "overtaken": "⋯", "given up": "‖", "given": "→",
};

// ---- pictures ----

export function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
export function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
export function colour(name) {
  return window.getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Black or white on a shade of a colour: the one with more contrast, which is at least 4.58.
export function textOn(share, tone = "--for") {
  const [ground, ink] = ["--page", tone].map((name) =>
    [1, 3, 5].map((at) => Number.parseInt(colour(name).slice(at, at + 2), 16)));
  const light = ground.map((from, i) => {
    const part = (from + share * (ink[i] - from)) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
  return (luminance + 0.05) ** 2 > 0.05 * 1.05 ? "#000000" : "#ffffff";
}

const LETTER = 13; // pixels of a label, and of the line that it needs
const WIDEST = 96, HIGHEST = 32; // pixels of a cell

// The sizes of a grid that uses the width it has: its cells, and where they begin.
export function gridPlace(context, rows, columns, options) {
  if (options.cell) return { left: 0, top: 0, w: options.cell, h: options.cell, named: false };
  context.font = `${LETTER}px system-ui, sans-serif`;
  const widest = (some) =>
    Math.max(0, ...some.map((group) => context.measureText(short(group.text)).width));
  const left = widest(rows) + 8, room = (options.width || 640) - left - 2;
  const w = Math.max(2, Math.min(WIDEST, Math.floor(room / Math.max(1, columns.length))));
  const upright = widest(columns) <= w - 4;
  return { left, top: upright ? LETTER + 8 : widest(columns) + 8, w, h: options.high || Math.min(w, HIGHEST),
    named: true, upright };
}

// A grid of cells as shades. Labels never overlap: where cells are small, only every n-th is named.
export function drawGrid(canvas, cells, rows, columns, options) {
  const context = canvas.getContext("2d");
  const place = gridPlace(context, rows, columns, options);
  const { left, top, w, h } = place;
  const width = left + columns.length * w + 1, height = top + rows.length * h + 1;
  const sharp = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.ceil(width * sharp));
  canvas.height = Math.max(1, Math.ceil(height * sharp));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.setAttribute("data-place", [left, top, w, h].join(" "));
  context.scale(sharp, sharp);
  const positive = colour(options.tone || "--for"), negative = colour("--against");
  cells.forEach((row, y) => row.forEach((value, x) => {
    if (value === 0) return;
    context.globalAlpha = Math.min(1, Math.abs(value));
    context.fillStyle = value > 0 ? positive : negative;
    context.fillRect(left + x * w, top + y * h, w, h);
  }));
  context.globalAlpha = 1;
  context.strokeStyle = colour("--line");
  context.strokeRect(left, top, columns.length * w, rows.length * h);
  if (options.row !== undefined && options.row >= 0) {
    context.strokeStyle = colour("--focus");
    context.lineWidth = 2;
    context.strokeRect(left, top + options.row * h, columns.length * w, h);
  }
  if (place.named) drawNames(context, rows, columns, place);
  return place;
}
function drawNames(context, rows, columns, { left, top, w, h, upright }) {
  context.fillStyle = colour("--ink");
  context.font = `${LETTER}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const every = (cell) => Math.ceil(LETTER / cell);
  rows.forEach((group, y) => {
    if (y % every(h) === 0) context.fillText(short(group.text), left - 5, top + (y + 0.5) * h);
  });
  context.textAlign = upright ? "center" : "left";
  columns.forEach((group, x) => {
    if (!upright && x % every(w) !== 0) return;
    context.save();
    context.translate(left + (x + 0.5) * w, top - (upright ? LETTER / 2 + 2 : 5));
    if (!upright) context.rotate(-Math.PI / 2);
    context.fillText(short(group.text), 0, 0);
    context.restore();
  });
}
// Row and column under a point of the canvas, or null.
export function cellAt({ left, top, w, h }, cells, event) {
  const x = Math.floor((event.offsetX - left) / w), y = Math.floor((event.offsetY - top) / h);
  return y in cells && x in cells[y] ? [y, x] : null;
}
export function rowOf(groups, at) {
  return groups.findIndex((group) => group.start <= at && at < group.end);
}
