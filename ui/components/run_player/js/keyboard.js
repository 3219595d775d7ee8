// Keys of the player. They work while the focus is in the player, or nowhere (on the page's body, or
// on Streamlit's scrolling area, which takes it when one clicks on the picture) and the player can be
// seen. `c` and `r` belong to Streamlit and are left alone.
const FIELDS = /^(INPUT|SELECT|TEXTAREA)$/;

let active = null; // of several players on a page, the one used last has the keys

export class Keyboard {
  constructor(player) {
    this.player = player;
    this.handler = (e) => this.onKey(e);
    this.recorded = (e) => this.playFromStart(e);
    document.addEventListener("keydown", this.handler);
    document.addEventListener("kv-recorded", this.recorded);
    active ??= player;
  }

  dispose() {
    document.removeEventListener("keydown", this.handler);
    document.removeEventListener("kv-recorded", this.recorded);
    if (active === this.player) active = null;
  }

  claim() {
    active = this.player;
  }

  // A presenter asks for the run on the page: one of the players takes it.
  playFromStart(e) {
    const { player } = this;
    const mine = active === player || active === null;
    if (e.defaultPrevented || !mine || player.loading || !(player.last > 0)) return;
    e.preventDefault();
    player.root.scrollIntoView({ block: "nearest" });
    player.pause();
    player.go(0);
    player.play();
  }

  visible() {
    const r = this.player.root.getBoundingClientRect();
    return r.bottom > 80 && r.top < window.innerHeight - 80;
  }

  mine(e) {
    const at = e.composedPath()[0];
    const inside = e.composedPath().includes(this.player.root);
    if (inside) return { at, inside };
    const nowhere = at === document.body || at === document.documentElement || !(at instanceof Element) || at.matches('[data-testid="stMain"]');
    return nowhere && (active === this.player || active === null) && this.visible() ? { at, inside } : null;
  }

  onKey(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || e.defaultPrevented) return;
    const where = this.mine(e);
    if (!where) return;
    const { at } = where;
    const field = FIELDS.test(at.tagName ?? "") || at.isContentEditable;
    const range = at.type === "range";
    if (field && !range) return;
    if (e.key === " " && /^(BUTTON|SUMMARY|A)$/.test(at.tagName ?? "")) return; // the button's own
    const { player } = this;
    if (player.loading) return;
    const step = (k) => {
      player.pause();
      player.go(k);
      player.commit();
    };
    const jump = (by) => {
      player.pause();
      player.jump(by);
      player.commit();
    };
    const act = {
      " ": () => player.toggle(),
      ArrowRight: () => step(player.k + 1),
      ArrowLeft: () => step(player.k - 1),
      PageDown: () => step(player.k + 1),
      PageUp: () => step(player.k - 1),
      Home: () => step(0),
      End: () => step(player.last),
      n: () => jump(1),
      e: () => jump(1),
      p: () => player.chooseKind && jump(-1),
      "?": () => player.controls.toggleHelp(),
      Escape: () => player.present && player.setPresent(false, true),
    }[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (!act || (e.key === "Escape" && (!player.present || player.sheet.open))) return;
    e.preventDefault();
    act();
  }
}

// One stop of the tab key for a whole set; arrow keys then move inside it. `grid` gives its
// elements as rows.
export function rove(container, grid) {
  container.addEventListener("keydown", (e) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (!move || e.altKey || e.ctrlKey || e.metaKey) return;
    const at = e.composedPath()[0].closest?.("button");
    const rows = grid();
    const r = rows.findIndex((row) => row.includes(at));
    if (r < 0) return;
    e.preventDefault();
    e.stopPropagation();
    let to = null;
    if (move[1]) {
      const flat = rows.flat();
      to = flat[flat.indexOf(at) + move[1]];
    } else {
      const row = rows[r + move[0]];
      to = row && row[Math.min(rows[r].indexOf(at), row.length - 1)];
    }
    if (!to) return;
    at.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  });
}
