// Runs in the page before anything of it: when is something there, and painted?
// Components keep their elements in shadow roots, so every root is noted as it is made.
(() => {
  const roots = [document];
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (init) {
    const root = attach.call(this, init);
    roots.push(root);
    return root;
  };
  const find = (selector) => {
    for (const root of roots) {
      const found = root.querySelector(selector);
      if (found && found.checkVisibility()) return found;
    }
    return null;
  };
  const nextPaint = () =>
    new Promise((done) => {
      requestAnimationFrame(() => {
        const after = new MessageChannel();
        after.port1.onmessage = done;
        after.port2.postMessage(0);
      });
    });
  // After the frame in which it is there has been drawn: milliseconds since the navigation began.
  const painted = (selector) =>
    new Promise((done) => {
      const look = () => {
        if (!find(selector)) return void requestAnimationFrame(look);
        nextPaint().then(() => done(performance.now()));
      };
      look();
    });
  // Milliseconds of every step of the player, one a frame: reducing alone, and with the drawing.
  const steps = async (most) => {
    const { player } = find(".kv-host");
    const seek = player.cursor.seek;
    let reduced = 0;
    player.cursor.seek = function (k) {
      const started = performance.now();
      const state = seek.call(this, k);
      reduced += performance.now() - started;
      return state;
    };
    const out = [];
    player.go(0);
    for (let k = 1; k <= Math.min(most, player.last); k++) {
      await new Promise(requestAnimationFrame);
      reduced = 0;
      const started = performance.now();
      player.go(k);
      out.push([reduced, performance.now() - started]);
    }
    delete player.cursor.seek;
    return out;
  };
  // Frames a second over so many seconds: the browser's own, with nothing to draw, or the steps that
  // the player shows at its greatest speed. It begins again where the run is over.
  const frames = async (seconds, playing) => {
    const { player } = find(".kv-host");
    let shown = 0;
    const go = player.go;
    player.go = function (k) {
      shown++;
      go.call(this, k);
    };
    if (playing) {
      player.setSpeed(Infinity);
      player.go(0);
      player.play();
    }
    shown = 0;
    let passed = 0;
    const began = performance.now();
    let now = began;
    while (now - began < 1000 * seconds) {
      now = await new Promise(requestAnimationFrame);
      passed++;
      if (playing && !player.stop) player.play();
    }
    player.pause();
    player.setSpeed(1);
    delete player.go;
    return (1000 * (playing ? shown : passed)) / (now - began);
  };
  // Milliseconds from a key to the paint that shows its effect, by the browser's own account, which
  // names only those above 16 ms, in steps of 8.
  const presses = { count: 0, slow: [] };
  const listen = () => {
    document.addEventListener("keydown", () => presses.count++, true);
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (entry.name === "keydown") presses.slow.push(entry.duration);
    }).observe({ type: "event", durationThreshold: 16 });
  };
  // Milliseconds from each movement of a slider by one notch, to and fro, to the paint in which what
  // is worked out from it has changed: the words of the picture, none of which are the slider's own.
  const slides = async (slider, picture, count) => {
    const range = find(slider);
    const said = () => find(picture).textContent;
    const out = [];
    for (let k = 0; k < count; k++) {
      const before = said();
      const began = performance.now();
      range.value = String(Number(range.value) + (k % 2 ? -1 : 1));
      range.dispatchEvent(new Event("input"));
      while (said() === before) {
        if (performance.now() - began > 5000) throw new Error(`${picture} did not follow ${slider}`);
        await new Promise(requestAnimationFrame);
      }
      await nextPaint();
      out.push(performance.now() - began);
      await new Promise((done) => setTimeout(done, 400)); // its address is written meanwhile
    }
    return out;
  };
  window.kvBench = { find, painted, steps, frames, listen, presses, slides };
})();
