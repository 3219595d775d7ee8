// The entry that Streamlit calls: on mounting, and again whenever data or theme change. The bench is
// kept by its parent element, so a rerun of the page does not disturb a stream.
import { Bench } from "./bench.js";

const benches = new WeakMap();

export default function liveRun(component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".kv-host");
  let bench = benches.get(parentElement);
  if (!bench || bench.host !== host) {
    bench?.dispose();
    bench = new Bench(host);
    benches.set(parentElement, bench);
    host.bench = bench; // for browser tests
  }
  bench.update(component);
  return () => {
    bench.dispose();
    benches.delete(parentElement);
  };
}
