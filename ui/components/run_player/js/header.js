// The head of the player: the run's name, where it comes from, and what can be done with it.
import { Exports } from "./exports.js";
import { handLink } from "./handlink.js";
import { icon } from "./icons.js";
import { button, el } from "./util.js";
import { provenance } from "./provenance.js";

export class Header {
  constructor(player) {
    this.player = player;
    this.title = el("h2", "ttl");
    this.prov = el("span", "prov");
    this.copy = button("btn quiet", null, icon("link"), this.copyWord = el("span", "w", "Copy link"));
    this.copy.dataset.tip = "A link to this step, with every control in it";
    this.exports = new Exports(player);
    this.present = button("btn quiet", null, icon("present"), this.presentWord = el("span", "w", "Present"));
    this.present.dataset.tip = "Large type for a projector";
    for (const [b, name] of [[this.copy, "Copy link"], [this.present, "Present"]]) b.setAttribute("aria-label", name);
    this.field = el("input", "linkfield");
    this.field.readOnly = true;
    this.field.hidden = true;
    this.field.setAttribute("aria-label", "Link to this step");
    this.seg = el("span", "seg");
    this.seg.setAttribute("role", "group");
    this.seg.setAttribute("aria-label", "Which run the pictures show");
    this.root = el("header", "bar", this.title, this.seg, this.prov, el("span", "actions", this.copy, this.exports.root, this.present), this.field);
    this.copy.onclick = () => this.copyLink();
    this.present.onclick = () => player.setPresent(!player.present, true);
  }

  load(info, title) {
    const { both, which, wide } = this.player;
    this.tabs?.forEach((b, i) => b.setAttribute("aria-pressed", String(!both && i === which)));
    this.together?.setAttribute("aria-pressed", String(both));
    if (this.together) this.together.hidden = !wide;
    this.prov.hidden = both; // each of the two has its own
    this.title.textContent = title || info.name;
    const p = provenance(info.header);
    this.prov.className = `prov ${p.cls}`;
    const about = p.about.filter(Boolean).join(", ");
    this.prov.replaceChildren(el("b", "", icon(p.icon), p.word), el("span", "", about));
    this.prov.dataset.tip = `${p.word}: ${about}`;
  }

  // With a second run to compare: one button each.
  choices(infos) {
    this.seg.hidden = infos.length < 2;
    this.title.classList.toggle("sr", infos.length > 1); // the buttons say it, the heading stays for readers of headings
    this.tabs = infos.map((info, i) => {
      const b = button("", null, info.name);
      b.onclick = () => this.player.choose(i);
      return b;
    });
    this.together = infos.length > 1 ? button("", null, "Both") : null;
    if (this.together) this.together.onclick = () => this.player.choose(-1);
    this.seg.replaceChildren(...(this.together ? [this.together] : []), ...this.tabs);
  }

  showPresent(on) {
    this.presentWord.textContent = on ? "Leave" : "Present";
    this.present.setAttribute("aria-label", on ? "Leave presenter mode" : "Present");
    this.present.setAttribute("aria-pressed", String(on));
  }

  url() {
    const { player } = this;
    const { link } = player.data;
    // A query of this page, or of another page where the run has its home.
    const base = typeof link === "string" ? new URL(link.includes("?") ? link : `?${link}`, window.location.href) : new URL(window.location.href);
    base.searchParams.set("step", String(player.k));
    if (player.panes[0].userSel) base.searchParams.set("block", String(player.panes[0].sel));
    base.hash = "";
    return base.toString();
  }

  copyLink() {
    return handLink(this.url(), { word: this.copyWord, field: this.field, say: (words) => this.player.say(words) });
  }
}
