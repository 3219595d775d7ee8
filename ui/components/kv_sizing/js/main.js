// The entry that Streamlit calls: on mounting, and again whenever data or theme change. The
// instrument is kept by its parent element, so a rerun of the page does not disturb a control.
import { Sizing } from "./sizing.js";

const kept = new WeakMap();

export default function kvSizing(component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".kv-host");
  let sizing = kept.get(parentElement);
  if (!sizing || sizing.host !== host) {
    sizing?.dispose();
    sizing = new Sizing(host);
    kept.set(parentElement, sizing);
    host.sizing = sizing; // for browser tests, which measure how long a change takes
  }
  sizing.update(component);
  return () => {
    sizing.dispose();
    kept.delete(parentElement);
  };
}
