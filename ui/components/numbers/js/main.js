// The entry that Streamlit calls: on mounting, and again whenever data or theme change.
import { Sheet } from "./sheet.js";

const sheets = new WeakMap();

export default function numbers(component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".kv-host");
  let shown = sheets.get(parentElement);
  if (!shown || shown.host !== host) {
    shown?.dispose();
    shown = new Sheet(host);
    sheets.set(parentElement, shown);
  }
  shown.update(component);
  return () => {
    shown.dispose();
    sheets.delete(parentElement);
  };
}
