// The engine in a few lines, kept true by what /engine/status says.
//   data: {names: {model id: name}}
import { watchEngine } from "./watch.js";

const WORDS = {
  ready: "Engine ready",
  busy: "Engine runs a scenario",
  starting: "Engine starting",
  restarting: "Engine restarting",
  absent: "No engine here",
};
const DTYPES = { bfloat16: "bf16", float16: "fp16", float32: "fp32" };
const NOTICEABLE = 0.1; // share of the processor from which other work is worth a word

const kept = new WeakMap(); // by mount: what was shown last

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

export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".engine");
  const last = kept.get(parentElement);
  if (last) draw(root, last, data.names);
  else root.replaceChildren(line("", strong("Looking for an engine …")));
  const watch = watchEngine((status) => {
    kept.set(parentElement, status);
    draw(root, status, data.names);
  });
  return watch.stop;
}
