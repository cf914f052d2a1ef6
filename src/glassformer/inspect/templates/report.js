// Draws what stands in the element "data": a trace (docs/trace.md) and what was computed from it.
// `report.py` puts parts.js in front of this file.

// ---- the page ----

function start(document, window) {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { trace, read, rollout, heads } = data;
  const byId = (id) => document.getElementById(id);
  const kinds = Object.keys(trace.attention);
  const values = Object.fromEntries(kinds.map((kind) => [kind, decoded(trace.attention[kind])]));
  const outputNodes = trace.answer === null ? [] : pathTo(trace.nodes, trace.answer);
  const state = {
    kind: kinds[kinds.length - 1], layer: 0, head: 0, words: false, marks: true,
    step: 0, position: 0, // the row that is looked at: a step, or of the encoder a source token
    node: trace.answer, pruned: false,
    linked: 0, share: true,
  };
  function spot() { return state.kind === "encoder" ? "position" : "step"; }

  // Pixels that a picture may be wide.
  function room() { return (byId("grid").parentElement || {}).clientWidth - 12 || 640; }
  function clamp(value, count) { return Math.max(0, Math.min(count - 1, value)); }

  function sidesOf(kind) {
    return [kind === "encoder" ? trace.source : trace.target,
      kind === "decoder" ? read : trace.source];
  }
  function view(kind) {
    return sidesOf(kind).map((side) => groupsOf(side, state.words, state.marks));
  }
  function cellsOf(kind, layer, head, rows, columns) {
    return merged(headOf(trace.attention[kind], values[kind], layer, head), rows, columns);
  }

  // ---- attention ----

  let grid = null; // what the large picture shows now
  function showHead() {
    const [rows, columns] = view(state.kind);
    const cells = cellsOf(state.kind, state.layer, state.head, rows, columns);
    const row = rowOf(rows, state[spot()]);
    grid = { rows, columns, cells, place: drawGrid(byId("grid"), cells, rows, columns, { row, width: room() }) };
    byId("grid").setAttribute("aria-label",
      `${state.kind} attention, layer ${state.layer + 1}, head ${state.head + 1}`);
    showReading(row);
    describeRow(row);
  }
  function showReading(row) {
    byId("reading").replaceChildren(...grid.columns.map((group, x) => {
      const token = el("span", { class: "token", dir: "auto" }, group.text);
      const share = row < 0 ? 0 : grid.cells[row][x];
      const strength = `${(100 * share).toFixed(2)}%`;
      token.style.background = `color-mix(in srgb, ${colour("--for")} ${strength}, transparent)`;
      token.style.color = textOn(share);
      token.setAttribute("title", strength);
      return token;
    }));
  }
  function describeRow(row) {
    if (row < 0) { byId("cell").textContent = ""; return; }
    const order = grid.cells[row].map((value, x) => [value, x]).sort((a, b) => b[0] - a[0]);
    const most = order.slice(0, 3).filter(([value]) => value > 0)
      .map(([value, x]) => `“${grid.columns[x].text}” ${percent(value)}`);
    byId("cell").textContent = `“${grid.rows[row].text}” looks at ${most.join(", ")}`;
  }
  function describeCell(event) {
    const found = cellAt(grid.place, grid.cells, event);
    if (!found) { describeRow(rowOf(grid.rows, state[spot()])); return null; }
    const [y, x] = found;
    const value = grid.cells[y][x];
    byId("cell").textContent =
      `“${grid.rows[y].text}” → “${grid.columns[x].text}”: ${value.toFixed(4)}`;
    return y;
  }

  let overview = [];
  function showOverview() {
    const [rows, columns] = view(state.kind);
    const [layers, count] = trace.attention[state.kind].shape;
    const small = Math.max(1, Math.min(5, Math.floor(100 / Math.max(rows.length, columns.length))));
    overview = [];
    byId("overview").replaceChildren(...Array.from({ length: layers }, (_, layer) =>
      el("div", { class: "layer" }, ...Array.from({ length: count }, (_, head) => {
        const canvas = el("canvas");
        const name = `layer ${layer + 1}, head ${head + 1}`;
        const button = el("button", { type: "button", title: name, "aria-label": name }, canvas);
        drawGrid(canvas, cellsOf(state.kind, layer, head, rows, columns), rows, columns, { cell: small });
        button.addEventListener("click", () => choose({ layer, head }));
        overview.push([button, layer, head]);
        return button;
      }))));
  }
  function markOverview() {
    for (const [button, layer, head] of overview) {
      const chosen = layer === state.layer && head === state.head;
      button.setAttribute("aria-pressed", String(chosen));
    }
  }

  // ---- links ----

  const LINKED = ["all, averaged", "those of the layer, averaged", "the one above"];
  function linkedCells(rows, columns) {
    const [layers, count] = trace.attention.cross.shape;
    const places = state.linked === 2 ? [[state.layer, state.head]]
      : Array.from({ length: layers * count }, (_, i) => [Math.floor(i / count), i % count])
        .filter(([layer]) => state.linked === 0 || layer === state.layer);
    const grids = places.map(([layer, head]) => cellsOf("cross", layer, head, rows, columns));
    return rows.map((_, y) => columns.map((_, x) =>
      grids.reduce((sum, cells) => sum + cells[y][x], 0) / grids.length));
  }
  // Words in a row, both rows in the middle of the wider one: lines are steep where the order is kept.
  function wordPlaces(groups) {
    const context = el("canvas").getContext("2d");
    context.font = "13px system-ui, sans-serif";
    let end = 0;
    const places = groups.map((group) => {
      const start = end, wide = context.measureText(short(readable(group.text))).width;
      end = start + wide + 14;
      return start + wide / 2;
    });
    return { places, width: Math.max(0, end - 14) };
  }
  function showLinks() {
    const there = "cross" in trace.attention && trace.source.words.length && trace.target.words.length;
    byId("s-links").hidden = !there;
    if (!there) return;
    const [rows, columns] = [trace.target, trace.source].map((side) => groupsOf(side, true, false));
    const found = linksOf(linkedCells(rows, columns), state.share);
    const sides = [wordPlaces(columns), wordPlaces(rows)];
    const width = Math.max(...sides.map((side) => side.width)) + 16, height = 150;
    const x = (side, i) => 8 + side.places[i] + (width - 16 - side.width) / 2;
    const named = found.map(([source, target]) =>
      `${readable(rows[target].text)} – ${readable(columns[source].text)}`).join(", ");
    const picture = svg("svg", { width, height, role: "img", "aria-label": named });
    for (const [source, target, weight] of found) {
      const chosen = rows[target].start <= state.step && state.step < rows[target].end;
      picture.append(svg("path", {
        d: `M${x(sides[0], source)} 26L${x(sides[1], target)} ${height - 26}`,
        class: chosen ? "link chosen" : "link",
        "stroke-width": (1 + 3 * weight).toFixed(2),
        "stroke-opacity": (0.35 + 0.65 * weight).toFixed(2),
      }, svg("title", {}, percent(weight))));
    }
    const word = (side, group, i, y) => svg("text", { x: x(side, i), y, "text-anchor": "middle" },
      short(readable(group.text)));
    columns.forEach((group, i) => picture.append(word(sides[0], group, i, 18)));
    rows.forEach((group, i) => {
      const chosen = group.start <= state.step && state.step < group.end;
      const made = svg("g", { class: chosen ? "word chosen" : "word" },
        word(sides[1], group, i, height - 10));
      made.addEventListener("click", () => choose({ step: group.start }));
      picture.append(made);
    });
    byId("links").replaceChildren(picture);
  }

  // ---- steps ----

  let stepButtons = [];
  function before(step) { return step === 0 ? 0 : outputNodes[step - 1]; }
  function probabilityOf(step) {
    const from = trace.nodes[before(step)], to = trace.nodes[outputNodes[step]];
    return Math.exp(to.log_probability - from.log_probability);
  }
  function listSteps() {
    byId("s-steps").hidden = outputNodes.length === 0;
    stepButtons = outputNodes.map((node, step) => {
      const token = el("bdi", { dir: "auto" }, readable(trace.target.tokens[step]));
      const button = el("button", { type: "button" }, el("span", { class: "n" }, String(step + 1)),
        token, el("span", { class: "p" }, percent(probabilityOf(step))));
      button.addEventListener("click", () => choose({ step }));
      return button;
    });
    byId("steps").replaceChildren(...stepButtons.map((button) => el("li", {}, button)));
  }
  function showStep() {
    if (!outputNodes.length) return;
    stepButtons.forEach((button, step) => {
      button.setAttribute("aria-pressed", String(step === state.step));
      button.setAttribute("tabindex", step === state.step ? "0" : "-1");
    });
    const node = trace.nodes[before(state.step)], chosen = trace.nodes[outputNodes[state.step]];
    const rows = node.next.map(([token, logProbability]) => {
      const p = Math.exp(logProbability), bar = el("div");
      bar.style.width = `${100 * p}%`;
      return el("tr", {},
        el("td", token === chosen.token ? { class: "output" } : {},
          el("bdi", { dir: "auto" }, readable(trace.vocabulary[token]))),
        el("td", {}, percent(p)), el("td", { class: "bar" }, bar));
    });
    byId("top").replaceChildren(
      el("caption", {}, `Most likely tokens in step ${state.step + 1}; the output is bold.`), ...rows);
  }

  // ---- the tree ----

  const onPath = new Set([0, ...outputNodes]);
  let tree = null;
  function textOf(i) {
    const tokens = pathTo(trace.nodes, i).map((n) => trace.vocabulary[trace.nodes[n].token]);
    return tokens.map(readable).join(" ");
  }
  function showTree() {
    byId("s-tree").hidden = trace.nodes.length === 0;
    if (!trace.nodes.length) return;
    const shows = (i) => state.pruned || onPath.has(i) || trace.nodes[i].fate !== "pruned";
    tree = placed(trace.nodes, shows, onPath);
    const across = 110, down = 22;
    const deepest = Math.max(...[...tree.at.values()].map((place) => place.x));
    const picture = svg("svg", { width: (deepest + 1) * across + 20, height: tree.lines * down + 12 });
    const x = (place) => 8 + place.x * across, y = (place) => 14 + place.y * down;
    for (const [i, place] of tree.at) {
      const parent = trace.nodes[i].parent;
      if (parent === null) continue;
      const from = tree.at.get(parent), a = x(from) + across - 24, b = x(place) - 4;
      const path = `M${a} ${y(from)}C${a + 12} ${y(from)} ${b - 12} ${y(place)} ${b} ${y(place)}`;
      picture.append(svg("path", { d: path, class: onPath.has(i) ? "edge answer" : "edge" }));
    }
    tree.groups = new Map();
    for (const [i, place] of tree.at) {
      const node = trace.nodes[i], name = readable(trace.vocabulary[node.token]);
      const kept = node.fate === "went on" || node.fate === "given";
      const group = svg("g", { class: onPath.has(i) ? "node answer" : kept ? "node" : "node dropped" },
        svg("rect", { x: x(place) - 3, y: y(place) - 10, width: across - 20, height: 20, rx: 4 }),
        svg("text", { x: x(place), y: y(place) + 4 }, name.length > 9 ? `${name.slice(0, 8)}…` : name),
        svg("text", { x: x(place) + across - 36, y: y(place) + 4, class: "sign" }, SIGNS[node.fate]),
        svg("title", {}, describeNode(i)));
      group.addEventListener("click", () => choose({ node: i }));
      tree.groups.set(i, group);
      picture.append(group);
    }
    byId("tree").replaceChildren(picture);
    if (!tree.at.has(state.node)) state.node = trace.answer;
  }
  function describeNode(i) {
    const node = trace.nodes[i];
    const end = node.complete === false ? " It was cut off at the length limit." : "";
    return `${textOf(i) || "the beginning"} — log-probability ${node.log_probability.toFixed(3)}, ` +
      `score ${node.score.toFixed(3)}. ${node.fate}: ${FATES[node.fate]}.${end}`;
  }
  function markNode() {
    if (!tree) return;
    for (const [i, group] of tree.groups) {
      group.setAttribute("aria-current", String(i === state.node));
      group.classList.toggle("chosen", i === state.node);
    }
    byId("node").textContent = describeNode(state.node);
  }
  function listFates() {
    const found = new Set(trace.nodes.map((node) => node.fate));
    byId("fates").replaceChildren(...Object.keys(FATES).filter((fate) => found.has(fate))
      .flatMap((fate) => [el("dt", {}, `${SIGNS[fate]} ${fate}`), el("dd", {}, FATES[fate])]));
  }
  function moveInTree(key) {
    const place = tree.at.get(state.node);
    if (key === "ArrowLeft") return trace.nodes[state.node].parent;
    if (key === "ArrowRight") {
      const children = tree.children[state.node];
      return children.find((child) => onPath.has(child)) ?? children[0];
    }
    const level = [...tree.at].filter(([, other]) => other.x === place.x).sort((a, b) => a[1].y - b[1].y);
    const here = level.findIndex(([i]) => i === state.node);
    const next = level[here + (key === "ArrowDown" ? 1 : -1)];
    return next && next[0];
  }

  // ---- saliency ----

  let saliencyMethods = []; // [panels], each [canvas, cells, side, title], and how they are drawn
  function listSaliency() {
    const names = Object.keys(trace.saliency).filter((name) => name !== "left_out");
    byId("s-saliency").hidden = names.length === 0;
    if (names.length === 0) return; // of an embedding
    if (trace.kind === "classifier") { byId("saliency").replaceChildren(decisionTable()); return; }
    const methods = [["attention rollout", rollout, "--faint"], ["gradient × input", trace.saliency, "--for"]];
    saliencyMethods = methods.map(([method, values, tone]) => ({ tone, panels: names.map((name) => {
      const by = name === "source" ? "by the source" : "by earlier output";
      const side = name === "source" ? trace.source : read;
      return [el("canvas", { role: "img" }), values[name], side, `${method}, ${by}`];
    }) }));
    byId("saliency").replaceChildren(...names.map((_, i) => el("div", { class: "columns" },
      ...saliencyMethods.map(({ panels }) => el("figure", {}, el("figcaption", {}, panels[i][3]),
        el("div", { class: "scroll" }, panels[i][0]))))),
      el("p", { class: "hint" }, "Each row is divided by its largest magnitude. Rollout has no sign; with " +
        "gradient × input, the second colour is against the output token."));
  }
  function showSaliency() {
    for (const { panels, tone } of saliencyMethods) {
      const rows = groupsOf(trace.target, state.words, state.marks);
      const columns = panels.map(([, , side]) => groupsOf(side, state.words, state.marks));
      const shades = byRow(panels.map(([, cells], i) => merged(cells, rows, columns[i])));
      const row = rowOf(rows, state.step);
      panels.forEach(([canvas, , , title], i) => {
        drawGrid(canvas, shades[i], rows, columns[i], { row, tone, width: room() });
        canvas.setAttribute("aria-label", told(title, rows[row], columns[i], shades[i][row]));
      });
    }
  }
  // In words, what a row shows: what weighs most in it.
  function told(title, word, columns, shades) {
    if (!word) return title;
    const order = shades.map((value, x) => [value, x]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const most = order.slice(0, 3).map(([value, x]) => `“${readable(columns[x].text)}” ${value.toFixed(2)}`);
    return `${title}; most for “${readable(word.text)}”: ${most.join(", ")}`;
  }
  function decisionTable() {
    const labels = Object.keys(trace.probabilities);
    const row = labels.reduce((best, label, i) =>
      trace.probabilities[label] > trace.probabilities[labels[best]] ? i : best, 0);
    const gradient = trace.source.words.map(([, start, end]) =>
      trace.saliency.source[row].slice(start, end).reduce((a, b) => a + b, 0));
    const leftOut = trace.saliency.left_out[row];
    const most = Math.max(1e-30, ...leftOut.map(Math.abs));
    const text = el("p", { class: "tokens", dir: "auto" }, ...trace.source.words.map(([word], i) => {
      const token = el("span", { class: "token", dir: "auto", title: leftOut[i].toFixed(3) }, readable(word));
      const tone = colour(leftOut[i] >= 0 ? "--for" : "--against");
      const strength = `${Math.round(100 * Math.abs(leftOut[i]) / most)}%`;
      token.style.borderColor = `color-mix(in srgb, ${tone} ${strength}, transparent)`;
      return token;
    }));
    const order = leftOut.map((value, i) => i).sort((a, b) => Math.abs(leftOut[b]) - Math.abs(leftOut[a]));
    const rows = order.slice(0, 30).map((i) => {
      const bar = el("div", leftOut[i] < 0 ? { class: "against" } : {});
      bar.style.width = `${100 * Math.abs(leftOut[i]) / most}%`;
      return el("tr", {}, el("td", {}, el("bdi", { dir: "auto" }, readable(trace.source.words[i][0]))),
        el("td", {}, leftOut[i].toFixed(3)), el("td", { class: "bar" }, bar),
        el("td", {}, gradient[i].toFixed(3)));
    });
    const head = el("tr", {}, el("th", { scope: "col" }, "word"), el("th", { scope: "col" }, "left out"),
      el("th", { scope: "col" }, ""), el("th", { scope: "col" }, "gradient × input"));
    const caption = el("caption", {}, "Which words decided for “", el("bdi", { dir: "auto" }, labels[row]),
      "”, in log-odds: by how much they fall without the word, and the estimate by the gradient.");
    return el("div", {}, text, el("table", {}, caption, el("thead", {}, head), el("tbody", {}, ...rows)));
  }

  // ---- figures of heads ----

  function listHeads() {
    byId("heads").replaceChildren(...kinds.flatMap((kind) => Object.keys(heads[kind]).map((measure) => {
      const count = heads[kind][measure][0].length;
      const first = el("tr", {}, el("th", { scope: "col" }, "layer"),
        ...Array.from({ length: count }, (_, h) => el("th", { scope: "col" }, `head ${h + 1}`)));
      const rows = heads[kind][measure].map((row, layer) => el("tr", {},
        el("th", { scope: "row" }, String(layer + 1)), ...row.map((v) => el("td", {}, v.toFixed(2)))));
      return el("table", {}, el("caption", {}, `${kind}: ${measure}`), el("thead", {}, first),
        el("tbody", {}, ...rows));
    })));
  }

  // ---- what the reader does ----

  function fill(select, names, chosen) {
    select.replaceChildren(...names.map((name, i) => el("option", { value: String(i) }, name)));
    select.value = String(chosen);
  }
  function choose(change) {
    Object.assign(state, change);
    const [layers, count] = trace.attention[state.kind].shape;
    state.layer = clamp(state.layer, layers);
    state.head = clamp(state.head, count);
    state.step = clamp(state.step, outputNodes.length);
    state.position = clamp(state.position, trace.source ? trace.source.tokens.length : 0);
    fill(byId("kind"), kinds, kinds.indexOf(state.kind));
    fill(byId("layer"), Array.from({ length: layers }, (_, i) => String(i + 1)), state.layer);
    fill(byId("head"), Array.from({ length: count }, (_, i) => String(i + 1)), state.head);
    byId("words").checked = state.words;
    byId("marks").checked = state.marks;
    if ("kind" in change || "words" in change || "marks" in change || "redraw" in change) showOverview();
    if ("pruned" in change || "redraw" in change) showTree();
    showHead();
    markOverview();
    fill(byId("linked"), LINKED, state.linked);
    byId("share").checked = state.share;
    showLinks();
    showStep();
    markNode();
    showSaliency();
  }
  function moved(by) { return { [spot()]: state[spot()] + by }; }
  function turned(kind) { return kinds[(kinds.indexOf(kind) + 1) % kinds.length]; }
  const gridKeys = {
    ArrowLeft: () => ({ head: state.head - 1 }), ArrowRight: () => ({ head: state.head + 1 }),
    ArrowUp: () => ({ layer: state.layer - 1 }), ArrowDown: () => ({ layer: state.layer + 1 }),
    ",": () => moved(-1), ".": () => moved(1), PageUp: () => moved(-1), PageDown: () => moved(1),
    Home: () => moved(-Infinity), End: () => moved(Infinity),
    k: () => ({ kind: turned(state.kind) }), w: () => ({ words: !state.words }),
    m: () => ({ marks: !state.marks }),
  };
  function onKeys(element, change) {
    element.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const found = change(event.key);
      if (!found) return;
      event.preventDefault();
      choose(found);
    });
  }
  onKeys(byId("grid"), (key) => Object.hasOwn(gridKeys, key) && gridKeys[key]());
  onKeys(byId("steps"), (key) => {
    const by = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[key];
    if (!by) return null;
    const step = clamp(state.step + by, outputNodes.length);
    stepButtons[step].focus();
    return { step };
  });
  onKeys(byId("tree"), (key) => {
    if (!key.startsWith("Arrow")) return null;
    const node = moveInTree(key);
    if (node === undefined || node === null) return null;
    tree.groups.get(node).scrollIntoView({ block: "nearest", inline: "nearest" });
    return { node };
  });
  byId("kind").addEventListener("change", () => choose({ kind: kinds[Number(byId("kind").value)] }));
  byId("layer").addEventListener("change", () => choose({ layer: Number(byId("layer").value) }));
  byId("head").addEventListener("change", () => choose({ head: Number(byId("head").value) }));
  byId("words").addEventListener("change", () => choose({ words: byId("words").checked }));
  byId("marks").addEventListener("change", () => choose({ marks: byId("marks").checked }));
  byId("pruned").addEventListener("change", () => choose({ pruned: byId("pruned").checked }));
  byId("linked").addEventListener("change", () => choose({ linked: Number(byId("linked").value) }));
  byId("share").addEventListener("change", () => choose({ share: byId("share").checked }));
  byId("grid").addEventListener("mousemove", describeCell);
  byId("grid").addEventListener("mouseleave", () => describeRow(rowOf(grid.rows, state[spot()])));
  byId("grid").addEventListener("click", (event) => {
    const row = describeCell(event);
    if (row !== null) choose({ [spot()]: grid.rows[row].start });
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    listSaliency();
    choose({ redraw: true });
  });

  listSteps();
  listFates();
  listSaliency();
  listHeads();
  choose({ redraw: true });
  byId("grid").focus({ preventScroll: true });
}

if (typeof module === "undefined") start(document, window);
else module.exports = { start };
