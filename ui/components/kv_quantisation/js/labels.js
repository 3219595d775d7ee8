// Where measured figures come from: the label of their run; nothing where there is none.
import { icon } from "../../run_player/js/icons.js";
import { provenance } from "../../run_player/js/provenance.js";
import { el } from "../../run_player/js/util.js";

export function measuredLabel(header) {
  if (!header) return [];
  const p = provenance(header);
  const label = el("span", `prov ${p.cls}`, el("b", "", icon(p.icon), p.word), el("span", "", p.about.filter(Boolean).join(", ")));
  label.title = label.textContent;
  return [label];
}
