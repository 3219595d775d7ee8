// Where presenting began, kept for this tab: its address is what "back to the start" opens.
export const KEY = "kv-scope.presenting";

// store: sessionStorage, which some browsers refuse. fresh: the document was just loaded from an
// address, and not again from the same one.
export class Start {
  constructor(store, fresh) {
    this.store = store;
    this.fresh = fresh;
  }

  read() {
    try {
      return this.store.getItem(KEY);
    } catch {
      return this.kept ?? null;
    }
  }

  write(href) {
    this.kept = href;
    try {
      if (href === null) this.store.removeItem(KEY);
      else this.store.setItem(KEY, href);
    } catch {
      // kept for as long as the document lives
    }
  }

  // Presenting goes on, or begins at `href`.
  begin(href) {
    if (this.fresh || this.read() === null) this.write(href);
    this.fresh = false;
    return this.read();
  }

  // The view was left, unless the address still says otherwise.
  end(href) {
    if (new URL(href).searchParams.get("present") !== "1") this.write(null);
  }
}
