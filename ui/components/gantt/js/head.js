// The head of the instrument: its title, and what can be taken away of it.
import { handLink } from "../../run_player/js/handlink.js";
import { icon } from "../../run_player/js/icons.js";
import { button, el } from "../../run_player/js/util.js";
import { fileName, savePng, saveText } from "../../series/js/save.js";
import { metricsCsv } from "./words.js";

export class Head {
  constructor(player) {
    this.player = player;
    this.title = el("h2", "ttl");
    this.copy = button("btn quiet", "Copy link", icon("link"), (this.copyWord = el("span", "w", "Copy link")));
    this.presentButton = button("btn quiet", "Present", icon("present"), (this.presentWord = el("span", "w", "Present")));
    const summary = el("summary", "btn quiet", icon("save"), el("span", "w", "Save"));
    summary.setAttribute("aria-label", "Save figures, picture or runs");
    this.files = el("details", "files", summary, this.menu());
    this.field = el("input", "linkfield");
    this.field.readOnly = true;
    this.field.hidden = true;
    this.field.setAttribute("aria-label", "Link to this picture");
    this.root = el("header", "bar", this.title, el("span", "actions", this.copy, this.files, this.presentButton), this.field);
    this.copy.onclick = () => this.copyLink();
    this.presentButton.onclick = () => player.setPresent(!player.present, true);
  }

  menu() {
    const { player } = this;
    const item = (words, act) => {
      const b = button("item", null, words);
      b.onclick = () => {
        this.files.open = false;
        act();
      };
      return b;
    };
    const name = () => player.data.title;
    return el(
      "div",
      "menu",
      item("Figures of each request, as CSV", () => saveText(fileName(name(), "csv"), metricsCsv(player.lanes), "text/csv")),
      item("Picture, as PNG", () => this.png(name())),
      item("Runs, as JSON", () => saveText(fileName(name(), "json"), JSON.stringify(player.lanes.map((l) => ({ name: l.name, run: l.run }))), "application/json")),
    );
  }

  png(title) {
    const { lanes, root } = this.player;
    const labels = lanes.map((l) => [...l.root.querySelector(".prov").children].map((p) => p.textContent).join(" · "));
    const foot = [...new Set(labels)].join("; ");
    return savePng(fileName(title, "png"), lanes.map((l) => l.picture.root), { head: `${title}: ${lanes.map((l) => l.name).join(", ")}`, foot, host: root.querySelector(".panel") });
  }

  draw(data) {
    this.title.textContent = data.title;
  }

  showPresent(on) {
    this.presentWord.textContent = on ? "Leave" : "Present";
    this.presentButton.setAttribute("aria-label", on ? "Leave presenter mode" : "Present");
    this.presentButton.setAttribute("aria-pressed", String(on));
  }

  // The address has the study and its settings; where the reader stands is newer here.
  url() {
    const url = new URL(window.location.href);
    url.hash = "";
    for (const [name, value] of Object.entries(this.player.place())) {
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, String(value));
    }
    return url.toString();
  }

  copyLink() {
    return handLink(this.url(), { word: this.copyWord, field: this.field, say: (words) => this.player.say(words) });
  }
}
