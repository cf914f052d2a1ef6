// Requests to the server of this page. Its errors say what happened, why, and what to do.

const address = new URLSearchParams(location.hash.slice(1));
if (address.has("token")) sessionStorage.setItem("token", address.get("token"));
address.delete("token");
history.replaceState(null, "", address.size ? `#${address}` : location.pathname);
const token = sessionStorage.getItem("token");

export class Problem extends Error {
  constructor(what, why, next) {
    super(what);
    Object.assign(this, { what, why, next });
  }
}
const GONE = () => new Problem("The server does not answer.",
  "It was stopped, or the connection broke while it was answering.",
  "Start it again with `glassformer serve`, then change the text or load the page again.");

async function asked(path, options) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  try {
    return await fetch(path, { ...options, headers });
  } catch (error) {
    throw error.name === "AbortError" ? error : GONE();
  }
}
function problemOf(content, status) {
  const found = typeof content.error === "object" ? content.error : content;
  const what = found.message ? found.message.split("\n")[0] : found.error;
  return new Problem(what || `The server answered ${status}.`, found.why || "", found.next || "");
}
async function read(response) {
  let content;
  try {
    content = await response.json();
  } catch (error) {
    throw error.name === "AbortError" ? error : GONE();
  }
  if (!response.ok) throw problemOf(content, response.status);
  return content;
}
export async function get(path) { return read(await asked(path, {})); }
export async function post(path, body, signal) {
  return read(await asked(path, { method: "POST", body: JSON.stringify(body), signal }));
}

// The events of a streamed answer, up to its end; an answer that breaks off is a problem.
export async function* events(path, body, signal) {
  const response = await asked(path, { method: "POST", body: JSON.stringify(body), signal });
  if (!response.ok) throw problemOf(await response.json(), response.status);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  while (true) {
    let step;
    try {
      step = await reader.read();
    } catch (error) {
      throw error.name === "AbortError" ? error : GONE();
    }
    if (step.done) throw GONE();
    const parts = (held + step.value).split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      const data = part.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw problemOf(event, 200);
      yield event;
    }
  }
}
