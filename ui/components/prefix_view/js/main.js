// The entry that Streamlit calls: on mounting, and again whenever data or theme change.
import { PrefixView } from "./prefixview.js";

const views = new WeakMap();

export default function prefixViewEntry(component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".kv-host");
  let view = views.get(parentElement);
  if (!view || view.host !== host) {
    view?.dispose();
    view = new PrefixView(host);
    views.set(parentElement, view);
    host.view = view; // for browser tests
  }
  view.update(component);
  return () => {
    view.dispose();
    views.delete(parentElement);
  };
}
