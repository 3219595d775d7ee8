// What /engine/status says, asked once for all that show it in a tab. The sidebar's panel and a page's
// instrument are scripts of their own, so they meet on the window. Asked rarely while all is well, and
// never while nobody looks.
const MEETING = "kvScopeEngineWatch";
const EVERY_MS = { ready: 5000, busy: 3000, starting: 1000, restarting: 1000, absent: 30000 };

async function askEngine() {
  try {
    const answer = await fetch(new URL("engine/status", window.location.href), { cache: "no-store" });
    if (answer.ok) return await answer.json();
  } catch {
    // the server of the page is away: Streamlit says so itself
  }
  return { state: "absent", message: "The server of this page does not answer." };
}

function makeWatch() {
  const watchers = new Set();
  let status = null;
  let timer = null;
  let asking = false;
  let again = false;

  const every = () => Math.min(EVERY_MS[status.state] ?? EVERY_MS.absent, ...(status.state === "absent" ? [...watchers].map((w) => w.absentMs) : []));

  async function ask() {
    again = asking;
    if (asking) return;
    clearTimeout(timer);
    if (!watchers.size || (document.hidden && status)) return;
    asking = true;
    status = await askEngine();
    asking = false;
    if (!watchers.size) status = null;
    for (const { take } of [...watchers]) take(status);
    if (again) await ask();
    else if (watchers.size) timer = setTimeout(ask, every());
  }

  function stop(watcher) {
    watchers.delete(watcher);
    if (watchers.size) return;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", ask);
    status = null; // old by the time somebody comes
  }

  return function join(take, absentMs) {
    const watcher = { take, absentMs };
    if (!watchers.size) document.addEventListener("visibilitychange", ask);
    watchers.add(watcher);
    if (status) queueMicrotask(() => watchers.has(watcher) && take(status));
    else ask();
    return { ask, stop: () => stop(watcher) };
  };
}

// take: called with each answer, the first one soon. absentMs: how often at least to look for an engine
// where there is none. Returns {ask, stop}: ask at once, and ask no more.
export function watchEngine(take, absentMs = EVERY_MS.absent) {
  window[MEETING] ??= makeWatch();
  return window[MEETING](take, absentMs);
}
