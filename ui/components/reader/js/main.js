// The entry that Streamlit calls: on mounting, and again whenever data or theme change.
import { Reader } from "./reader.js";

const readers = new WeakMap();

export default function reader({ parentElement, data, setTriggerValue }) {
  const host = parentElement.querySelector(".reader");
  let one = readers.get(parentElement);
  if (!one || one.host !== host) {
    one?.dispose();
    one = new Reader(host);
    readers.set(parentElement, one);
  }
  one.update(data, setTriggerValue);
  return () => {
    one.dispose();
    readers.delete(parentElement);
  };
}
