// What is looked at: kept in the address, so that it can be copied and comes back.

export const state = {
  model: "", to: "", text: "", reference: "", kind: "", layer: 0, head: 0, chosenHead: false, inside: false,
  words: true, marks: false, shift: false, pruned: false, compare: false, beam: 5,
  prefix: [], off: new Set(), step: 0, position: 0, node: null,
};
const TEXTS = ["model", "to", "text", "reference", "kind"];
const NUMBERS = ["layer", "head", "step", "position", "beam"];
const SWITCHES = ["words", "marks", "shift", "pruned", "compare", "chosenHead", "inside"];

export function fromAddress() {
  const found = new URLSearchParams(location.hash.slice(1));
  for (const name of TEXTS) if (found.has(name)) state[name] = found.get(name);
  for (const name of NUMBERS) {
    const value = Number.parseInt(found.get(name), 10);
    if (value >= 0) state[name] = value;
  }
  for (const name of SWITCHES) if (found.has(name)) state[name] = found.get(name) === "1";
  const ids = (found.get("prefix") || "").split(".").filter(Boolean).map(Number);
  state.prefix = ids.every(Number.isInteger) ? ids : [];
  state.off = new Set((found.get("off") || "").split(".").filter((one) => /^(encoder|decoder|cross)-\d+-\d+$/.test(one)));
}
export function toAddress() {
  const made = new URLSearchParams();
  for (const name of TEXTS) if (state[name]) made.set(name, state[name]);
  for (const name of NUMBERS) made.set(name, String(state[name]));
  for (const name of SWITCHES) made.set(name, state[name] ? "1" : "0");
  if (state.prefix.length) made.set("prefix", state.prefix.join("."));
  if (state.off.size) made.set("off", [...state.off].join("."));
  history.replaceState(null, "", `#${made}`);
}
export const headId = (kind, layer, head) => `${kind}-${layer}-${head}`;
export function headsOff() {
  return [...state.off].map((one) => {
    const [kind, layer, head] = one.split("-");
    return [kind, Number(layer), Number(head)];
  });
}
