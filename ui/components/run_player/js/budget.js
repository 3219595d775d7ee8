// The token budget of a step: who got how many of its tokens, prefill and decode told apart, and
// what is left of it.
import { badge, paint } from "./badge.js";
import { el, list, num, plural, range } from "./util.js";

// What each scheduled sequence computes in this step, in the order of scheduling. Decode is the one
// token that was sampled last; everything else is prefill: prompt tokens, and what is computed again
// after a preemption or where no keys and values are kept.
export function sharesOf(sv) {
  const out = [];
  for (const [id, { n, from, hit }] of sv.state.scheduled) {
    const s = sv.state.seqs.get(id);
    out.push({ id, n, from, hit, decode: n === 1 && from >= s.prompt.length });
  }
  return out;
}

export function sums(shares, budget) {
  const prefill = shares.reduce((a, s) => a + (s.decode ? 0 : s.n), 0);
  const decode = shares.reduce((a, s) => a + (s.decode ? s.n : 0), 0);
  return { prefill, decode, left: Math.max(0, budget - prefill - decode) };
}

const told = (s) => `${s.id}: ${s.decode ? "1 token of decode" : `${plural(s.n, "token")} of prefill`}, ${s.n === 1 ? "position" : "positions"} ${range(s.from, s.from + s.n - 1)}${s.hit ? `, after ${plural(s.hit, "token")} found in the cache` : ""}.`;

export class Budget {
  constructor() {
    this.bar = el("div", "bbar");
    this.bar.tabIndex = 0;
    this.bar.setAttribute("role", "img");
    this.words = el("span", "bwords");
    this.root = el("div", "budget", this.bar, this.words);
  }

  load(info) {
    this.info = info;
    this.sig = null;
  }

  draw(sv) {
    const { info } = this;
    const budget = info.engine.max_num_batched_tokens;
    const shares = sharesOf(sv);
    const sig = shares.map((s) => `${s.id}.${s.n}.${s.from}.${s.hit}`).join();
    if (sig === this.sig) return;
    this.sig = sig;
    const { prefill, decode, left } = sums(shares, budget);
    const parts = [...shares.filter((s) => !s.decode), ...shares.filter((s) => s.decode)].map((s) => this.part(s, budget));
    const rest = el("i", "brest");
    rest.style.flexGrow = String(left);
    rest.dataset.tip = `${num(left)} of ${plural(budget, "budget token")} left in this step.`;
    if (left / budget > 0.12) rest.append(el("span", "", `${num(left)} left`));
    const used = prefill + decode;
    const taken = el("span", `bused ${shares.length > 20 ? "many" : ""}`, ...parts);
    taken.style.flexGrow = String(used);
    this.bar.replaceChildren(...(used ? [taken] : []), ...(left ? [rest] : []));
    this.words.replaceChildren(el("b", "", num(used)), ` of ${num(budget)} budget tokens`);
    const who = list(shares.map((s) => `${s.id} ${num(s.n)}`), 6);
    this.bar.dataset.tip = `${plural(used, "token")} of ${num(budget)}: ${num(prefill)} prefill, ${num(decode)} decode, ${num(left)} left.${who ? ` ${who}.` : ""}`;
    this.bar.setAttribute("aria-label", `Token budget of the step. ${this.bar.dataset.tip}`);
  }

  // A decode token stands lower than prefill; a letter where there is room for one.
  part(s, budget) {
    const i = paint(el("i", s.decode ? "bdec" : "bpre"), this.info, s.id);
    i.style.flexGrow = String(s.n);
    i.dataset.tip = told(s);
    if (!s.decode && s.n / budget > 0.04) i.append(badge(this.info, s.id, this.info.letter(s.id)));
    return i;
  }
}
