// The entry that Streamlit calls: on mounting, and again whenever data or theme change. The
// instrument is kept by its parent element, so a rerun of the page does not disturb a control.
import { Planner } from "./planner.js";

const kept = new WeakMap();

export default function capacityPlanner(component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".kv-host");
  let planner = kept.get(parentElement);
  if (!planner || planner.host !== host) {
    planner?.dispose();
    planner = new Planner(host);
    kept.set(parentElement, planner);
    host.planner = planner; // for browser tests, which measure how long a change takes
  }
  planner.update(component);
  return () => {
    planner.dispose();
    kept.delete(parentElement);
  };
}
