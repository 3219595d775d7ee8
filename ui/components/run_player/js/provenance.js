// The four labels: where a picture comes from.
import { dateOf } from "./runinfo.js";

const MODEL_NAMES = { "smollm2-135m-instruct": "SmolLM2-135M-Instruct", "smollm2-360m-instruct": "SmolLM2-360M-Instruct" };
const DTYPES = { bfloat16: "bf16", float16: "fp16", float32: "fp32" };

// The four labels differ in word, icon and border; each names what stands behind the picture.
export function provenance(header) {
  const { label, source = {} } = header;
  const model = source.model && source.model !== "none" ? MODEL_NAMES[source.model] ?? source.model : null;
  const machine = [source.device, model, DTYPES[source.dtype] ?? source.dtype];
  if (source.weights === "int8") machine.push("int8 weights");
  const date = header.recorded_at && dateOf(header.recorded_at);
  const rev = header.revision && `rev ${String(header.revision).slice(0, 7)}`;
  switch (label) {
    case "LIVE":
      return { cls: "live", icon: "live", word: "LIVE", about: machine };
    case "RECORDED":
      return { cls: "recorded", icon: "disc", word: "RECORDED", about: [...machine, date, rev] };
    case "MODELLED":
      return { cls: "modelled", icon: "fn", word: "MODELLED", about: source.inputs ? Object.entries(source.inputs).map(([k, v]) => `${k} ${v}`) : ["a formula, no engine ran"] };
    default:
      return { cls: "simulated", icon: "branch", word: "SIMULATED", about: ["real scheduler and block manager", "scripted tokens", "no model"] };
  }
}
