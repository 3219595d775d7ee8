// One run with its caption, its picture, and under it the tokens of every step on the same axis.
import { el, num } from "../../run_player/js/util.js";
import { icon } from "../../run_player/js/icons.js";
import { provenance } from "../../run_player/js/provenance.js";
import { Timeline } from "../../run_player/js/timeline.js";
import { Picture } from "./picture.js";
import { shareOf } from "./words.js";

// The player's timeline, with the picture's columns: a step has the width that it has there.
class TokensTrack extends Timeline {
  constructor(player, picture) {
    super(player);
    this.picture = picture;
    this.range.onpointerdown = (e) => this.drag(e);
    this.range.onpointermove = (e) => (e.buttons & 1 ? this.drag(e) : this.peek(e));
  }

  get width() {
    return this.picture.width - this.picture.gutter;
  }

  column(k) {
    return this.picture.axisX.column(k);
  }

  stepOf(e) {
    return this.picture.axisX.at(e.clientX - this.root.getBoundingClientRect().left, this.n);
  }

  // The steps of a clock are not equally wide, so the pointer is read here and not by the slider.
  drag(e) {
    e.preventDefault();
    this.range.focus({ preventScroll: true });
    this.player.pause();
    this.player.goIn(this.picture.lane, this.stepOf(e));
    this.player.commit();
  }

  peek(e) {
    const k = this.stepOf(e);
    const { left, top, bottom } = this.root.getBoundingClientRect();
    this.player.tip(`Step ${num(k)}: ${num(this.info.tokens[k])} tokens computed.`, { left: Math.max(left, e.clientX), top, width: 0, bottom });
  }
}

export class Lane {
  constructor(player, { name, info, run, serving }, index) {
    Object.assign(this, { player, name, info, run, serving });
    this.last = run.steps.length - 1;
    this.picture = new Picture(this, `g${index}`);
    this.track = new TokensTrack(player, this.picture);
    this.track.load(info, run.steps.length, player.mostTokens);
    this.track.name(name);
    const { place_steps: p, steps } = serving.summary;
    const known = provenance(info.header);
    const badge = el("span", `prov ${known.cls}`, el("b", "", icon(known.icon), known.word), el("span", "", known.about.filter(Boolean).join(", ")));
    badge.dataset.tip = `${known.word}: ${known.about.filter(Boolean).join(", ")}`;
    this.moment = el("p", "what");
    this.root = el(
      "section",
      "lane",
      el("header", "lhead", el("h3", "", name), el("span", "brief", el("b", "", num(steps)), " steps, ", el("b", "", `${num(p.idle)}`), ` of ${num(p.total)} place-steps idle (${shareOf(p.total ? p.idle / p.total : null)})`), badge),
      el("div", "pic", this.picture.root),
      el("div", "toks", el("span", "tk", "tokens"), this.track.root),
      this.moment,
    );
    this.root.setAttribute("aria-label", name);
  }

  draw(shared, most) {
    this.picture.draw(shared);
    this.root.style.setProperty("--gutter", `${shared.gutter}px`);
    this.picture.root.setAttribute("aria-label", this.describe());
    this.track.most = most;
    this.track.drawn = null;
  }

  describe() {
    const { steps, places, place_steps: p, in_steps: t } = this.serving.summary;
    return `${this.name}: ${steps} steps, ${places} places, ${p.idle} of ${p.total} place-steps idle, longest gap ${t.worst_gap ?? 0} steps. The table below has every request.`;
  }
}
