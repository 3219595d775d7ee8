// Blocks as they are needed, against one reservation for each sequence: what fits, what is empty.
import { button, el, num, plural } from "../../run_player/js/util.js";
import { amount, modelled, opens } from "./said.js";

const SIZES = ["1", "8", "16", "32", "64", "128"];

export class Paging {
  constructor(open, choose) {
    this.open = open;
    this.prov = el("span", "provs");
    this.size = el("select", "", ...SIZES.map((value) => Object.assign(el("option", "", value), { value })));
    this.size.onchange = () => choose({ bs: this.size.value });
    this.most = Object.assign(el("input", "exact"), { type: "number", min: "1", max: "1048576", step: "1", inputMode: "numeric" });
    this.most.onchange = () => {
      const v = Math.round(Number(this.most.value));
      if (!Number.isFinite(v) || v < 1) return void (this.most.value = this.most.defaultValue);
      this.most.value = this.most.defaultValue = String(Math.min(v, 1048576));
      choose({ max: this.most.value });
    };
    this.limit = button("btn quiet", null, "the model's limit");
    this.limit.onclick = () => choose({ max: "0" });
    this.rows = el("div", "lanes2");
    this.root = el(
      "section",
      "panel paging",
      el("header", "head", el("h2", "", "Paged or contiguous"), this.prov),
      el("div", "row", el("label", "f", el("span", "", "Tokens a block"), this.size), el("label", "f", el("span", "", "Reserved for each"), this.most), this.limit),
      this.rows,
    );
  }

  update(p, data) {
    const { place } = data;
    this.prov.replaceChildren(modelled([`${plural(p.context, "token")} each`]));
    if (!SIZES.includes(String(p.block_size)) && ![...this.size.options].some((o) => o.value === String(p.block_size))) this.size.append(Object.assign(el("option", "", String(p.block_size)), { value: String(p.block_size) }));
    this.size.value = String(p.block_size);
    this.most.defaultValue = String(p.reserved);
    if (this.most.getRootNode().activeElement !== this.most) this.most.value = this.most.defaultValue;
    this.limit.hidden = place.most === 0;
    const used = p.context / p.reserved;
    this.rows.replaceChildren(
      this.lane("Contiguous", p.contiguous, used, [
        `Each reserves ${plural(p.reserved, "token")} at its start. Of that `,
        opens(p.wasted, this.open),
        " stays empty at this length.",
      ]),
      this.lane("Paged", p.paged, null, [
        opens(p.blocks, this.open, plural(p.blocks.value, "block")),
        ` of ${num(p.block_size)} for each, taken as it grows. The last one has `,
        opens(p.last, this.open, `${Number(((p.block_size - 1) / 2).toFixed(1))} empty slots`),
        " on average.",
      ]),
      el("p", "small muted", "To the token, without blocks: ", opens(p.fractional, this.open, amount(p.fractional.value, "")), ". A pool of ", opens(p.pool_blocks, this.open, amount(p.pool_blocks.value, "")), ` blocks on each GPU.`),
    );
  }

  lane(name, figure, used, words) {
    const bar = el("span", `res2 ${used === null ? "paged" : ""}`);
    if (used === null) for (let i = 0; i < 12; i++) bar.append(el("i", i === 11 ? "last" : ""));
    else {
      const fill = el("i", "used");
      fill.style.width = `${Math.max(0.5, Math.min(100, 100 * used))}%`;
      bar.append(fill);
    }
    bar.setAttribute("aria-hidden", "true");
    return el("div", "lane2", el("b", "", name), el("span", "fits", opens(figure, this.open, amount(figure.value, "")), figure.value === 1 ? " fits" : " fit"), bar, el("p", "small", ...words));
  }
}
