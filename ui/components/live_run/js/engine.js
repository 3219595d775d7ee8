// The browser's side of the routes below /engine, and recorded runs from the same origin.
import { follow } from "./sse.js";

const at = (path) => new URL(path, window.location.href).toString();

export class Refused extends Error {
  constructor(message, retryAfter) {
    super(message);
    this.retryAfter = retryAfter;
  }
}

// kind: "live" or "scenario". Resolves to the id of the run; rejects with Refused.
export async function submit(kind, body) {
  let answer;
  try {
    answer = await fetch(at(`engine/${kind}`), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    throw new Refused("The server of this page cannot be reached.");
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 202 && said.id !== undefined) return String(said.id);
  const wait = Number(answer.headers.get("Retry-After"));
  throw new Refused(typeof said.error === "string" ? said.error : "The engine did not take the request.", wait > 0 ? wait : null);
}

export const cancelRun = (id) => fetch(at(`engine/runs/${encodeURIComponent(id)}`), { method: "DELETE", keepalive: true }).catch(() => null);

export const followRun = (id, handlers, signal) => follow(at(`engine/runs/${encodeURIComponent(id)}/events`), handlers, { signal });

// A recorded run, unpacked here: the server sends the file as it is.
export async function recordedRun(name) {
  const answer = await fetch(at(`runs/${encodeURIComponent(name)}`));
  if (!answer.ok) throw new Error(`The recorded run ${name} is not there.`);
  return new Response(answer.body.pipeThrough(new DecompressionStream("gzip"))).json();
}
