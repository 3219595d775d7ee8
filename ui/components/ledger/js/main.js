// The entry that Streamlit calls: on mounting, and again whenever data or theme change.
import { Ledger } from "./ledger.js";

const ledgers = new WeakMap();

export default function ledger(component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".kv-host");
  let shown = ledgers.get(parentElement);
  if (!shown || shown.host !== host) {
    shown?.dispose();
    shown = new Ledger(host);
    ledgers.set(parentElement, shown);
  }
  shown.update(component);
  return () => {
    shown.dispose();
    ledgers.delete(parentElement);
  };
}
