// The sheet: groups of numbers; a row opens its derivation; values can be covered to test oneself.
import { derivation } from "../../ledger/js/derivation.js";
import { icon } from "../../run_player/js/icons.js";
import { button, el, text } from "../../run_player/js/util.js";
import { coverWords, groupOf, shownGroups } from "./place.js";

const COMMIT_MS = 400;

export class Sheet {
  constructor(host) {
    this.host = host;
    this.looked = new Set();
    this.rows = new Map();
  }

  dispose() {
    clearTimeout(this.timer);
  }

  update({ data, setStateValue }) {
    this.setStateValue = setStateValue;
    const first = !this.data;
    this.data = data;
    if (data.present) this.host.dataset.scale = "present";
    else delete this.host.dataset.scale;
    if (!first) return;
    const { number, ...place } = data.place;
    this.place = place;
    this.build();
    this.draw();
    if (number && this.reach(number)) this.rows.get(number).fold.scrollIntoView({ block: "center" });
  }

  build() {
    const { groups } = this.data;
    this.which = el("select");
    this.which.setAttribute("aria-label", "Group");
    for (const [id, title] of [["", "All groups"], ...groups.map((g) => [g.id, g.title])]) {
      const option = el("option", "", title);
      option.value = id;
      this.which.append(option);
    }
    this.which.onchange = () => this.set("group", this.which.value);
    this.cover = button("btn", null, icon("lock"), el("span", "", "Cover the values"));
    this.cover.onclick = () => {
      this.looked.clear();
      this.set("cover", this.place.cover ? "" : "1");
    };
    this.print = button("btn", null, icon("copy"), "Print");
    this.print.onclick = () => window.print();
    this.count = el("span", "count muted");
    this.count.setAttribute("role", "status");
    const prov = el("span", "prov modelled", el("b", "", icon("fn"), "MODELLED"), el("span", "", "computed by core/sizing from the inputs behind each number; no engine ran"));
    const bar = el("div", "sbar", this.which, this.cover, this.print, this.count, prov);
    this.sections = new Map(groups.map((g) => [g.id, this.group(g)]));
    this.host.replaceChildren(el("section", "kv sheet", bar, el("div", "groups", ...this.sections.values())));
  }

  group(group) {
    const box = el("section", "group", el("h2", "", group.title), el("p", "about muted", group.about));
    for (const number of group.numbers) box.append(this.row(number));
    return box;
  }

  row(number) {
    const value = el("span", "value", number.value);
    const scope = el("span", "scope muted", number.scope === "gpu" ? "GPU" : number.scope);
    const look = el("span", "look", "look");
    const line = el("summary", "", el("span", "name", number.name), look, value, scope);
    const fold = el("details", "number", line);
    line.onclick = (event) => {
      if (look.hidden) return;
      event.preventDefault(); // the first click, or Enter, uncovers the value and opens nothing
      this.looked.add(number.id);
      this.draw();
    };
    fold.ontoggle = () => {
      if (fold.open) this.fill(number, fold);
      if (fold.open) this.looked.add(number.id);
      const last = fold.open ? number.id : this.last === number.id ? null : this.last;
      if (last !== this.last) {
        this.last = last;
        this.commit();
      }
      if (fold.open) this.draw();
    };
    this.rows.set(number.id, { fold, look, value });
    return fold;
  }

  fill(number, fold) {
    if (fold.lastChild.className === "deriv") return;
    const box = el("div", "deriv");
    if (number.note) box.append(el("p", "note", number.note));
    if (number.derived.expression || number.exact !== number.derived.calls[0].value) {
      box.append(el("p", "exact", el("span", "muted", "It is "), el("b", "", number.exact)));
    }
    box.append(derivation(number.derived));
    if (number.claims.length) {
      const said = el("p", "said", "What is said about it: ");
      number.claims.forEach((id, i) => {
        const link = el("a", "", id);
        link.href = `claims_ledger?claim=${encodeURIComponent(id)}`;
        link.target = "_blank";
        link.rel = "noopener";
        link.setAttribute("aria-label", `Claim ${id} in the claims ledger, in a new tab`);
        said.append(i ? ", " : "", link);
      });
      box.append(said);
    }
    fold.append(box);
  }

  reach(id) {
    const row = this.rows.get(id);
    if (!row) return false;
    if (this.place.group && groupOf(this.data.groups, id) !== this.place.group) delete this.place.group;
    this.last = id;
    row.fold.open = true;
    this.draw();
    return true;
  }

  draw() {
    const { place } = this;
    const { groups } = this.data;
    const shown = new Set(shownGroups(groups, place).map((g) => g.id));
    for (const [id, box] of this.sections) box.hidden = !shown.has(id);
    this.host.classList.toggle("alone", shown.size === 1);
    this.which.value = place.group ?? "";
    const covered = Boolean(place.cover);
    this.cover.setAttribute("aria-pressed", String(covered));
    for (const [id, { look, value, fold }] of this.rows) {
      const hide = covered && !this.looked.has(id) && !fold.open;
      value.hidden = hide;
      look.hidden = !hide;
    }
    text(this.count, covered ? coverWords(this.looked, shownGroups(groups, place)) : "");
  }

  set(name, value) {
    if (value) this.place[name] = value;
    else delete this.place[name];
    this.draw();
    this.commit();
  }

  commit() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.setStateValue("place", { ...this.place, ...(this.last ? { number: this.last } : {}) }), COMMIT_MS);
  }
}
