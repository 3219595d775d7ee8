// The controls: who is served, what serves them, and the engine's settings. A change is {name: text}.
import { el } from "../../run_player/js/util.js";
import { Controls, ladder } from "../../kv_sizing/js/controls.js";

const USERS = ladder(1, 10000, 8, 1);
const TOKENS = ladder(128, 1048576, 8, 16);
const SHARED = [0, ...ladder(16, 131072, 6, 16)];

export class Demands extends Controls {
  constructor(choose) {
    super(choose);
    this.root.classList.add("demands");
    this.root.setAttribute("aria-label", "Users, limits, model, GPUs and the engine's settings");
    this.fields = {};
  }

  update(data, { keep }) {
    if (!this.made) this.build(data);
    if (keep) return;
    this.group(data.place.tp);
    for (const [name, node] of Object.entries(this.fields)) {
      if (node.set) node.set(data.place[name]);
      else if (node.type === "checkbox") node.checked = data.place[name] === 1;
      else if (node.tagName === "SELECT") node.value = String(data.place[name]);
      else {
        node.defaultValue = String(data.place[name]);
        if (node.getRootNode().activeElement !== node) node.value = node.defaultValue;
      }
    }
  }

  build({ options }) {
    this.made = true;
    const f = this.fields;
    f.users = this.slider("Users at once", "users", USERS, 100000);
    f.ctx = this.slider("Tokens of each", "ctx", TOKENS, 1048576);
    f.sys = this.slider("Of them shared by all", "sys", SHARED, 1048576);
    f.ttft = this.exact("First token within, ms", "ttft", 600000);
    f.itl = this.exact("Between tokens, ms", "itl", 60000);
    f.model = this.select("Model", "model", options.models, "wide");
    f.gpu = this.select("GPU", "gpu", options.gpus, "wide");
    f.price = this.exact("Price of a GPU hour, $", "price", 10000, "any", 0.01);
    f.tp = this.select("GPUs of a replica (tp)", "tp", options.tps);
    f.adp = this.adp = this.select("Attention", "adp", [], "att");
    f.w = this.select("Weights in", "w", options.w);
    f.kv = this.select("KV cache in", "kv", options.kv);
    this.select("Example", "example", [["", "Set the controls to …"], ...options.examples]);
    const more = el("details", "more", el("summary", "", "The engine's settings, and a second GPU for the chart"));
    const outer = this.root;
    outer.append(more);
    this.root = el("div", "ctl inner");
    more.append(this.root);
    f.r = this.exact("Replicas, 0: as many as needed", "r", 1024);
    f.p = this.exact("Tokens of the prompt, 0: all", "p", 1048576);
    f.seqs = this.exact("max_num_seqs", "seqs", 65536, "1", 1);
    f.batch = this.exact("max_num_batched_tokens", "batch", 1048576, "1", 1);
    f.bs = this.exact("Tokens of a block", "bs", 256, "1", 1);
    f.util = this.exact("Memory it may use, %", "util", 100, "1", 10);
    f.alloc = this.select("Allocator", "alloc", options.alloc);
    f.evict = this.select("Prefix cache evicts", "evict", options.evict);
    f.off = this.select("Preempted sequences go", "off", options.off, "wide");
    f.hit = this.exact("Hit rate, %, if known", "hit", 100);
    f.gpu2 = this.select("Second GPU on the chart", "gpu2", [["", "none"], ...options.gpus], "wide");
    f.price2 = this.exact("Its price an hour, $", "price2", 10000, "any", 0.01);
    f.ev = this.tick("ev", "The quantised cache was evaluated on our own tasks");
    f.dis = this.tick("dis", "Prefill and decode on GPUs of their own");
    this.root = outer;
  }

  tick(name, label) {
    const box = Object.assign(el("input", ""), { type: "checkbox" });
    box.onchange = () => this.choose({ [name]: box.checked ? "1" : "0" });
    this.root.append(el("label", "f tick", box, el("span", "", label)));
    return box;
  }

  // A field for a number alone; empty where it may be unknown. Its default is the last number that
  // held: what is none goes back to it, and what is too small or too large becomes what is not.
  exact(label, name, most, step = "1", least = 0) {
    const input = Object.assign(el("input", "exact full"), { type: "number", min: String(least), max: String(most), step, inputMode: step === "any" ? "decimal" : "numeric" });
    input.onchange = () => {
      const v = Number(input.value);
      if (name === "hit" && input.value === "" && input.validity.valid) return void this.choose({ hit: "" });
      if (input.value === "" || !Number.isFinite(v) || v < 0) return void (input.value = input.defaultValue);
      const inside = Math.max(least, Math.min(step === "any" ? Number(v.toFixed(4)) : Math.round(v), most));
      input.value = input.defaultValue = String(inside);
      this.choose({ [name]: String(inside) });
    };
    return this.field(label, input);
  }
}
