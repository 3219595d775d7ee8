// What can be taken away: the picture as PNG, the steps as CSV, the run as its file.
import { icon } from "./icons.js";
import { picture } from "./picture.js";
import { msOf } from "./runinfo.js";
import { button, el } from "./util.js";

export const slug = (name) => name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "run";

const COLUMNS = ["step", "running", "waiting", "in_use", "cached", "free", "tokens", "ms"];
const cell = (v) => (/[",\n\r]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v);

// A row a step. Of two runs, both, told apart by a first column with the run's name. `ms` is empty
// where no model ran.
export function stepsCsv(infos) {
  const many = infos.length > 1;
  const lines = [[...(many ? ["run"] : []), ...COLUMNS].join(",")];
  for (const info of infos) {
    info.run.steps.forEach((s, k) => {
      const took = msOf(s.timing);
      const row = [k, info.running[k], info.waiting[k], s.usage.in_use, s.usage.cached, s.usage.free, info.tokens[k], took === null ? "" : took.toFixed(3)];
      lines.push([...(many ? [cell(info.name)] : []), ...row].join(","));
    });
  }
  return `${lines.join("\n")}\n`;
}

async function runFile(run) {
  const text = new Blob([JSON.stringify(run)], { type: "application/json" });
  if (typeof CompressionStream === "undefined") return [text, ".run.json"];
  const packed = await new Response(text.stream().pipeThrough(new CompressionStream("gzip"))).blob();
  return [new Blob([packed], { type: "application/gzip" }), ".run.json.gz"];
}

function download(blob, name) {
  const a = el("a");
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

// A button that opens a short menu.
export class Exports {
  constructor(player) {
    this.player = player;
    this.open = button("btn quiet", "Export", icon("save"), el("span", "w", "Export"));
    this.open.dataset.tip = "Picture, table or run file";
    this.open.setAttribute("aria-haspopup", "menu");
    this.menu = el("div", "menu");
    this.menu.setAttribute("role", "menu");
    this.menu.setAttribute("aria-label", "Export");
    this.items = [
      ["This picture, PNG", () => this.png()],
      ["All steps, CSV", () => this.csv()],
      ["Run file, JSON", () => this.json()],
    ].map(([words, act]) => {
      const b = button("", null, words);
      b.setAttribute("role", "menuitem");
      b.tabIndex = -1;
      b.onclick = () => {
        this.show(false);
        act();
      };
      return b;
    });
    this.menu.append(...this.items);
    this.root = el("span", "menubox", this.open, this.menu);
    this.open.onclick = () => this.show(this.menu.hidden);
    this.root.onkeydown = (e) => this.onKey(e);
    this.root.addEventListener("focusout", (e) => {
      if (!this.root.contains(e.relatedTarget)) this.show(false, false);
    });
    this.show(false, false);
  }

  show(on, focus = true) {
    this.menu.hidden = !on;
    this.open.setAttribute("aria-expanded", String(on));
    if (focus) (on ? this.items[0] : this.open).focus();
  }

  onKey(e) {
    if (this.menu.hidden) return;
    const at = this.items.indexOf(e.composedPath()[0]);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[e.key];
    if (e.key === "Escape") this.show(false);
    else if (to !== undefined) this.items.at(to % this.items.length).focus();
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  get name() {
    return slug(this.player.both ? this.player.panes.map((p) => p.info.name).join(" and ") : this.player.info.name);
  }

  png() {
    const name = `${this.name}-step-${this.player.k}.png`;
    picture(this.player).toBlob((blob) => blob && download(blob, name), "image/png");
  }

  csv() {
    const name = this.player.runs.length > 1 ? this.player.panes.map((p) => p.info.name).join(" and ") : this.name;
    const csv = new Blob([stepsCsv(this.player.runs.map((r) => r.info))], { type: "text/csv" });
    download(csv, `${slug(name)}-steps.csv`);
  }

  async json() {
    const name = slug(this.player.info.name);
    const [blob, end] = await runFile(this.player.run);
    download(blob, `${name}${end}`);
  }
}
