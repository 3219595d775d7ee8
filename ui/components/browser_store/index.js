// One document in this browser's localStorage. It draws nothing.
//   data: {key, text: the document as the page has it, or null while the page has none,
//          seen: the id of the last report that the page has taken in,
//          move: {to, text} where what is kept cannot be read: it goes to the key `to`, or null,
//          drop: keys of such copies that the learner has let go of, or `key` itself where that
//          text could not be moved}
// What another tab wrote is reported and merged by the page before anything is written over it.
const mounts = new WeakMap();

export function aside(key) {
  return `${key}.damaged.`;
}

function read(key) {
  try {
    const storage = window.localStorage;
    const names = Array.from({ length: storage.length }, (_, i) => storage.key(i));
    const copies = names.filter((name) => name.startsWith(aside(key))).sort();
    return {
      text: storage.getItem(key),
      ok: true,
      copies: copies.map((name) => ({ key: name, text: storage.getItem(name) })),
    };
  } catch {
    return { text: null, ok: false, copies: [] }; // storage is switched off
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

// Two of them may not find room at once: then the first is taken out before, and put back if the
// second still cannot be written. Where nothing can be written at all, nothing is taken out.
function move(from, to, text) {
  const { localStorage } = window;
  if (!write(to, text)) {
    if (!write(from, text)) return false;
    localStorage.removeItem(from);
    if (!write(to, text)) {
      write(from, text);
      return false;
    }
  }
  localStorage.removeItem(from);
  return true;
}

export default function ({ parentElement, data, setStateValue }) {
  const state = mounts.get(parentElement) ?? { pending: null, known: null, fresh: true, failed: null };
  mounts.set(parentElement, state);

  function report(found) {
    state.pending = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
    state.known = found.text;
    setStateValue("stored", { ...found, id: state.pending });
  }

  // The page's document is kept, or it is said that it is not. A shorter one may fit again.
  function keep(text) {
    if (state.failed !== null && text.length >= state.failed) return;
    const failed = state.failed !== null;
    if (write(data.key, text)) {
      state.known = text;
      state.failed = null;
      if (failed) report(read(data.key));
    } else {
      state.failed = text.length;
      if (!failed) report({ ...read(data.key), ok: false });
    }
  }

  const onStorage = (event) => {
    if (event.key === data.key) report({ ...read(data.key), text: event.newValue });
  };
  state.stop?.(); // called again on every change of data: one listener at a time
  window.addEventListener("storage", onStorage);
  state.stop = () => window.removeEventListener("storage", onStorage);

  if (state.fresh || state.pending === null || state.pending === data.seen) {
    let found = read(data.key);
    const toMove = data.move && found.text !== null && found.text === data.move.text;
    for (const name of found.ok ? (data.drop ?? []) : []) {
      if (name.startsWith(aside(data.key))) window.localStorage.removeItem(name);
      if (name === data.key && toMove) {
        window.localStorage.removeItem(name);
        state.failed = null;
      }
    }
    found = read(data.key);
    if (toMove && found.text !== null && state.failed !== 0) {
      // What finds no room elsewhere stays where it is, and nothing is written over it.
      const moved = move(data.key, data.move.to, found.text);
      state.failed = moved ? null : 0;
      report({ ...read(data.key), ok: moved });
      state.fresh = false;
      return state.stop;
    }
    const isNews = found.text !== state.known;
    if (state.fresh && (data.text === null || (found.text !== null && found.text !== data.text))) {
      report(found);
    } else if (!state.fresh && isNews && found.text !== data.text) {
      report(found);
    } else if (data.text !== null && found.text !== data.text) {
      keep(data.text);
    } else {
      state.known = found.text;
    }
    state.fresh = false;
  }
  return state.stop;
}
