// Asks /engine/status now and then; rarely while all is well, never while nobody looks.
//   data: {names: {model id: name}}
const EVERY_MS = { ready: 5000, busy: 5000, starting: 2000, restarting: 2000, absent: 30000 };
const WORDS = {
  ready: "Engine ready",
  busy: "Engine runs a scenario",
  starting: "Engine starting",
  restarting: "Engine restarting",
  absent: "No engine here",
};
const DTYPES = { bfloat16: "bf16", float16: "fp16", float32: "fp32" };
const NOTICEABLE = 0.1; // share of the processor from which other work is worth a word

const kept = new WeakMap(); // by mount: the timer, and what was shown last

function line(className, ...parts) {
  const p = document.createElement("p");
  if (className) p.className = className;
  p.append(...parts);
  return p;
}

function strong(text) {
  const b = document.createElement("b");
  b.textContent = text; // model names and messages come from outside: never as markup
  return b;
}

export function linesOf(status, names) {
  const { state, message, label_source: source = {}, live = {}, queue = 0, load } = status;
  const can = state === "ready" || state === "busy";
  if (!can) {
    // The word is above it: "No engine here: torch is not installed." says the rest only.
    const rest = (message || "").replace(/^No engine here[:.]\s*/, "");
    return { word: WORDS[state] ?? WORDS.absent, lines: [rest || "Recorded and simulated runs play all the same."], warn: null };
  }
  const model = names[source.model] ?? source.model;
  const lines = [
    [source.device, model, DTYPES[source.dtype] ?? source.dtype].filter(Boolean).join(", "),
    `${live.running ?? 0} running, ${live.waiting ?? 0} waiting`,
    `${queue} ${queue === 1 ? "scenario" : "scenarios"} queued`,
  ];
  if (load?.load_1m !== null && load?.load_1m !== undefined) lines.push(`load ${load.load_1m.toFixed(1)} on ${load.cores} ${load.cores === 1 ? "core" : "cores"}`);
  const other = load?.other_work ?? 0;
  const warn = other >= NOTICEABLE ? `Other work takes ${Math.round(100 * other)} % of the processor: timings are longer.` : null;
  return { word: WORDS[state], lines, warn };
}

function draw(root, status, names) {
  const { word, lines, warn } = linesOf(status, names);
  root.className = `engine ${status.state}`;
  const dot = document.createElement("span");
  dot.className = "dot";
  const all = [line("", dot, strong(word)), ...lines.map((text) => line("number", text))];
  if (warn) all.push(line("warn", warn));
  root.replaceChildren(...all);
}

async function ask() {
  try {
    const answer = await fetch(new URL("engine/status", window.location.href), { cache: "no-store" });
    if (answer.ok) return await answer.json();
  } catch {
    // the server of the page is away: Streamlit says so itself
  }
  return { state: "absent", message: "The server of this page does not answer." };
}

export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".engine");
  const state = kept.get(parentElement) ?? { status: null };
  kept.set(parentElement, state);
  let gone = false;
  const look = async () => {
    clearTimeout(state.timer);
    if (gone || document.hidden) return;
    state.status = await ask();
    if (gone) return;
    draw(root, state.status, data.names);
    state.timer = setTimeout(look, EVERY_MS[state.status.state] ?? EVERY_MS.absent);
  };
  if (state.status) draw(root, state.status, data.names);
  else root.replaceChildren(line("", strong("Looking for an engine …")));
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    gone = true;
    clearTimeout(state.timer);
    document.removeEventListener("visibilitychange", look);
  };
}
