// The entry that Streamlit calls: on mounting, and again whenever data or theme change.
import { Quantise } from "./quantise.js";

const kept = new WeakMap();

export default function mountQuantise(component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".kv-host");
  let instrument = kept.get(parentElement);
  if (!instrument || instrument.host !== host) {
    instrument?.dispose();
    instrument = new Quantise(host);
    kept.set(parentElement, instrument);
    host.instrument = instrument; // for browser tests, which measure how long a change takes
  }
  instrument.update(component);
  return () => {
    instrument.dispose();
    kept.delete(parentElement);
  };
}
