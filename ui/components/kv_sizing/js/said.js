// Words that several panels share: the label of a modelled picture, sizes in both units, scopes.
import { icon } from "../../run_player/js/icons.js";
import { provenance } from "../../run_player/js/provenance.js";
import { button, el, num } from "../../run_player/js/util.js";

export function modelled(about) {
  const p = provenance({ label: "MODELLED" });
  const text = about.filter(Boolean).join(", ");
  const label = el("span", `prov ${p.cls}`, el("b", "", icon(p.icon), p.word), ...(text ? [el("span", "", text)] : []));
  label.title = `${p.word}: ${text}`;
  return label;
}

export const gb = (bytes) => `${(bytes / 1e9).toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} GB`;
export const gib = (bytes) => `${(bytes / 2 ** 30).toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} GiB`;
export const SCOPES = { layer: "one layer", gpu: "each GPU", model: "whole model", replica: "all GPUs", fleet: "all GPUs" };

// A value as it is written where it stands alone.
export function amount(value, unit) {
  if (value === null || value === undefined) return "none";
  if (unit === "fraction") return `${(100 * value).toLocaleString("en-US", { maximumFractionDigits: 1 })} %`;
  const shown = Number.isInteger(value) ? num(value) : value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
  return unit === "B" ? `${shown} B` : shown;
}

// A number that opens: pressed, it shows its formula with the values put in.
export function opens(figure, open, shown = amount(figure.value, figure.unit)) {
  const b = button("fig", `${figure.label}: ${shown}${figure.scope ? `, ${SCOPES[figure.scope] ?? figure.scope}` : ""}. Show how it is reached`, shown);
  b.onclick = () => open(figure, b);
  return b;
}
