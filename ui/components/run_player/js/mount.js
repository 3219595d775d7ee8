// What Streamlit calls of a component: on mounting, and again whenever data or theme change.

// Kind: a class. `new Kind(host)` draws into the host element and keeps it as `host`, `update`
// takes what Streamlit gives, `dispose` lets go. The instrument is kept by its parent element, so a
// rerun of the page does not disturb it. It stands at host[name], for browser tests and benchmarks.
export function mounting(Kind, name) {
  const kept = new WeakMap();
  return (component) => {
    const { parentElement } = component;
    const host = parentElement.querySelector(".kv-host");
    let instrument = kept.get(parentElement);
    if (!instrument || instrument.host !== host) {
      instrument?.dispose();
      instrument = new Kind(host);
      kept.set(parentElement, instrument);
      host[name] = instrument;
    }
    instrument.update(component);
    return () => {
      instrument.dispose();
      kept.delete(parentElement);
    };
  };
}
