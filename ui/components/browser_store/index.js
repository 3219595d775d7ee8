// One document in this browser's localStorage. It draws nothing.
//   data: {key, text: the document as the page has it, or null while the page has none,
//          seen: the id of the last report that the page has taken in}
// What another tab wrote is reported and merged by the page before anything is written over it.
const mounts = new WeakMap();

function read(key) {
  try {
    return { text: window.localStorage.getItem(key), ok: true };
  } catch {
    return { text: null, ok: false }; // storage is switched off
  }
}

function write(key, text) {
  try {
    window.localStorage.setItem(key, text);
    return true;
  } catch {
    return false; // full, or switched off
  }
}

export default function ({ parentElement, data, setStateValue }) {
  const state = mounts.get(parentElement) ?? { pending: null, known: null, fresh: true };
  mounts.set(parentElement, state);

  function report(found) {
    state.pending = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
    state.known = found.text;
    setStateValue("stored", { ...found, id: state.pending });
  }

  const onStorage = (event) => {
    if (event.key === data.key) report({ text: event.newValue, ok: true });
  };
  state.stop?.(); // called again on every change of data: one listener at a time
  window.addEventListener("storage", onStorage);
  state.stop = () => window.removeEventListener("storage", onStorage);

  if (state.fresh || state.pending === null || state.pending === data.seen) {
    const found = read(data.key);
    const isNews = found.text !== state.known;
    if (state.fresh && (data.text === null || (found.text !== null && found.text !== data.text))) {
      report(found);
    } else if (!state.fresh && isNews && found.text !== data.text) {
      report(found);
    } else if (data.text !== null && found.text !== data.text && !state.failed) {
      if (write(data.key, data.text)) state.known = data.text;
      else {
        state.failed = true;
        report({ text: found.text, ok: false });
      }
    } else {
      state.known = found.text;
    }
    state.fresh = false;
  }
  return state.stop;
}
