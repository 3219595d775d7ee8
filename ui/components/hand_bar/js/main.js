// The entry that Streamlit calls: on mounting, and again whenever data or theme change.
import { HandBar } from "./bar.js";

const bars = new WeakMap();

export default function handBar(component) {
  const { parentElement, data, setTriggerValue } = component;
  const host = parentElement.querySelector(".kv-host");
  let bar = bars.get(parentElement);
  if (!bar || bar.host !== host) {
    bar?.dispose();
    bar = new HandBar(host);
    bars.set(parentElement, bar);
  }
  bar.update(data, setTriggerValue);
  return () => {
    bar.dispose();
    bars.delete(parentElement);
  };
}
