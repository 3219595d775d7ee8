// The entry that Streamlit calls. data: {derived, present}.
import { derivation } from "../../ledger/js/derivation.js";

export default function shown({ parentElement, data }) {
  const host = parentElement.querySelector(".kv-host");
  if (data.present) host.dataset.scale = "present";
  else delete host.dataset.scale;
  host.querySelector(".kv").replaceChildren(derivation(data.derived));
}
