// The entry of the second component: what each format cost on a shipped text, a row a format.
import { QualityTable } from "./qualitytable.js";

const tables = new WeakMap();

export default function mountQuality(component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".kv-host");
  let table = tables.get(parentElement);
  if (!table || table.host !== host) {
    table?.dispose();
    table = new QualityTable(host);
    tables.set(parentElement, table);
  }
  table.update(component);
  return () => {
    table.dispose();
    tables.delete(parentElement);
  };
}
