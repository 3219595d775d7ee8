// Every picture again as a table. A table is only built while it is open.
import { sentence } from "./sentences.js";
import { context, headline } from "./events.js";
import { waitingText } from "./waiting.js";
import { el, num } from "./util.js";

const MOST_ROWS = 400;

function table(caption, heads, rows, numeric) {
  const t = el("table", "t", el("caption", "", caption));
  const head = el("tr");
  heads.forEach((h, i) => {
    const th = el("th", numeric.includes(i) ? "n" : "", h);
    th.scope = "col";
    head.append(th);
  });
  const body = el("tbody");
  for (const r of rows.slice(0, MOST_ROWS)) body.append(el("tr", "", ...r.map((v, i) => el("td", numeric.includes(i) ? "n" : "", typeof v === "number" ? num(v) : v))));
  t.append(el("thead", "", head), body);
  const box = el("div", "tbox", t);
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", caption);
  if (rows.length > MOST_ROWS) box.append(el("p", "say muted", `${num(rows.length - MOST_ROWS)} more rows are in the run file.`));
  return box;
}

const BUILD = {
  "The sequences of this step as a table": (sv, info) => {
    const rows = [];
    for (const s of sv.state.seqs.values()) {
      if (s.status === "ended" && s.endStep !== sv.k) continue;
      if (s.status === "rejected" && s.endStep !== sv.k) continue;
      const now = sv.state.scheduled.get(s.id);
      const t = sv.state.tables.get(s.id) ?? [];
      rows.push([s.id, { held: "ended, holds its blocks", rejected: "refused" }[s.status] ?? (s.status === "waiting" && s.preempted ? "preempted, waits" : s.status), s.numTokens, s.computed, now?.n ?? 0, now?.hit ?? 0, t.map((b, l) => `${l} → ${b < 0 ? "–" : b}`).join(", ") || "none", s.status === "waiting" ? waitingText(s, sv) : info.quote(s.tokens(Math.max(0, s.numTokens - 6), s.numTokens))]);
    }
    return table("Sequences after this step", ["Sequence", "State", "Tokens", "Computed", "In this step", "From the cache", "Block table", "Last tokens, or why it waits"], rows, [2, 3, 4, 5]);
  },
  "The pool of this step as a table": (sv, info) => {
    const place = new Map(sv.state.free.first().map((b, i) => [b, i + 1]));
    const who = Array.from({ length: info.n }, () => []);
    for (const [id, t] of sv.state.tables) t.forEach((b, l) => who[b]?.push(`${id} entry ${l}`));
    const rows = [];
    for (let b = 0; b < info.n; b++) {
      const kind = sv.kind(b);
      if (kind === "free" && info.n > 256) continue;
      rows.push([b, kind === "used" ? who[b].join(", ") : kind === "idle" ? "cached, nobody reads it" : "free", sv.state.ref[b], `${kind === "idle" ? info.bs : sv.fill[b]} of ${info.bs}`, sv.state.entry[b]?.key ?? "", place.get(b) ?? "", info.bs <= 16 ? sv.tokens(b).map((t) => info.show(t)).join(" ") : ""]);
    }
    return table(info.n > 256 ? "Blocks after this step that hold anything" : "Blocks after this step", ["Block", "Held by", "References", "Slots filled", "Key", "Place in the free order", "Tokens"], rows, [0, 2, 5]);
  },
  "The prefix tree of this step as a table": (sv, info) =>
    info.radix &&
    table(
      "Prefix tree after this step",
      ["Node", "Parent", "Blocks", "Lock", "Last used in step", "Tokens"],
      [...sv.state.nodes.values()].map((n) => [n.id, n.parent ?? "root", n.blocks.join(", "), sv.state.nodeLock(n), sv.state.nodeUsed(n), n.tokens.slice(0, 64).map((t) => info.show(t)).join(" ")]),
      [0, 3, 4],
    ),
  "Everything that happened in this step": (sv, info, notes) =>
    table("Events of this step, in order", ["Event", "Reason", "What happened"], sv.events.map((e, i) => [e.type, e.reason ?? e.cause ?? "", sentence(e, context(e, notes[i], info))]), []),
  "All steps as a table": (sv, info) =>
    table(
      "Steps of the run",
      ["Step", "Tokens", "Sequences", "Blocks in use", "Cached, idle", "Free", "Headline"],
      info.run.steps.map((s) => [s.step, info.tokens[s.step], Object.keys(s.scheduled).length, s.usage.in_use, s.usage.cached, s.usage.free, headline(s, [], info).text]),
      [0, 1, 2, 3, 4, 5],
    ),
};

export class Tables {
  constructor(player) {
    this.player = player;
    this.items = Object.entries(BUILD).map(([name, build]) => {
      const d = el("details", "", el("summary", "", name));
      d.ontoggle = () => {
        if (d.open) this.fill(d, build);
      };
      return { d, build, name };
    });
    this.root = el("div", "tables", ...this.items.map((x) => x.d));
  }

  load(info) {
    this.info = info;
    for (const { d, name } of this.items) if (name.includes("tree")) d.hidden = !info.radix;
  }

  fill(d, build) {
    d.querySelector(".tbox")?.remove();
    const t = build(this.player.sv, this.info, this.player.cursor.notes);
    if (t) d.append(t);
  }

  draw() {
    for (const { d, build, name } of this.items) if (d.open && !name.startsWith("All")) this.fill(d, build);
  }
}

