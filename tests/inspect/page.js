// Runs the script of a report without a browser: a page that remembers what it was told.
// node page.js REPORT.html SCRIPT.js '[["grid", "keydown", {"key": "w"}], …]'
// prints a JSON list: what the page showed at first and after each event.
"use strict";
const fs = require("node:fs");
const [file, script, events] = process.argv.slice(2);

class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, childNodes: [], listeners: {}, style: {}, hidden: false });
    this.classes = new Set();
    this.classList = { toggle: (name, on) => (on ? this.classes.add(name) : this.classes.delete(name)) };
  }
  set innerHTML(_) { throw new Error("the script parses HTML"); }
  set outerHTML(_) { throw new Error("the script parses HTML"); }
  insertAdjacentHTML() { throw new Error("the script parses HTML"); }
  set textContent(text) { this.childNodes = [String(text)]; }
  get textContent() { return this.childNodes.map((c) => (typeof c === "string" ? c : c.textContent)).join(""); }
  setAttribute(name, value) {
    if (/^on|^style$/.test(name)) throw new Error(`the page's policy forbids the attribute ${name}`);
    this.attributes[name] = String(value);
  }
  append(...some) { this.childNodes.push(...some); }
  replaceChildren(...some) { this.childNodes = some; }
  addEventListener(kind, listener) { (this.listeners[kind] ||= []).push(listener); }
  dispatch(kind, event) {
    let prevented = false;
    const whole = { preventDefault: () => { prevented = true; }, ...event };
    for (const listener of this.listeners[kind] || []) listener(whole);
    return prevented;
  }
  focus() { document.active = this; }
  scrollIntoView() {}
  getContext() {
    this.cells = [];
    let alpha = 1;
    const stack = [];
    const silent = { get: (target, name) => (name in target ? target[name] : () => {}), set: (target, name, value) => { target[name] = value; return true; } };
    const context = {
      measureText: (text) => ({ width: 7 * text.length }),
      fillRect: (x, y, width, height) => this.cells.push([x, y, width, height, context.globalAlpha * (context.fillStyle === "--against" ? -1 : 1)]),
      fillText: (text) => (this.names ||= []).push(text),
    };
    this.names = [];
    return new Proxy(context, silent);
  }
}

const html = fs.readFileSync(file, "utf8");
const elements = {};
for (const [, tag, id] of html.matchAll(/<(\w+)[^>]*? id="([\w-]+)"/g)) elements[id] = new Element(tag);
for (const [, id] of html.matchAll(/ id="([\w-]+)"[^>]* hidden>/g)) elements[id].hidden = true;
elements.data.textContent = html.split('<script type="application/json" id="data">')[1].split("</script>")[0];
const document = {
  documentElement: new Element("html"),
  getElementById: (id) => elements[id],
  createElement: (tag) => new Element(tag),
  createElementNS: (_, tag) => new Element(tag),
};
const media = new Element("media");
const window = {
  devicePixelRatio: 2,
  getComputedStyle: () => ({ getPropertyValue: (name) => name }),
  matchMedia: () => media,
};

function all(element, tag, found = []) {
  for (const child of element.childNodes) {
    if (typeof child === "string") continue;
    if (child.tag === tag) found.push(child);
    all(child, tag, found);
  }
  return found;
}
function seen(prevented) {
  return {
    prevented,
    label: elements.grid.attributes["aria-label"],
    grid: elements.grid.cells,
    names: elements.grid.names,
    cell: elements.cell.textContent,
    reading: all(elements.reading, "span").map((span) => span.textContent),
    overview: all(elements.overview, "canvas").map((canvas) => canvas.cells),
    pressed: all(elements.overview, "button").map((b) => b.attributes["aria-pressed"]).indexOf("true"),
    links: all(elements.links, "svg").map((picture) => picture.attributes["aria-label"])[0],
    lines: all(elements.links, "path").length,
    steps: all(elements.steps, "button").map((button) => button.textContent),
    step: all(elements.steps, "button").findIndex((b) => b.attributes["aria-pressed"] === "true"),
    top: all(elements.top, "tr").map((row) => row.textContent),
    nodes: all(elements.tree, "g").map((group) => all(group, "title")[0].textContent),
    edges: all(elements.tree, "path").length,
    chosen: all(elements.tree, "g").findIndex((group) => group.classes.has("chosen")),
    node: elements.node.textContent,
    fates: all(elements.fates, "dt").map((term) => term.textContent),
    saliency: all(elements.saliency, "canvas").map((canvas) => canvas.cells),
    decision: all(elements.saliency, "tr").map((row) => all(row, "td").map((td) => td.textContent)),
    heads: all(elements.heads, "table").map((table) => table.textContent),
    hidden: Object.keys(elements).filter((id) => elements[id].hidden),
    focus: document.active && Object.keys(elements).find((id) => elements[id] === document.active),
  };
}

Object.assign(globalThis, { document, window }); // as a browser has them
require(script).start(document, window);
const told = [seen(false)];
for (const [id, kind, event] of JSON.parse(events)) {
  const target = id === "media" ? media : elements[id];
  if (event.checked !== undefined) target.checked = event.checked;
  if (event.value !== undefined) target.value = event.value;
  told.push(seen(target.dispatch(kind, event)));
}
process.stdout.write(JSON.stringify(told));
