// The entry that Streamlit calls: on mounting, and again whenever data or theme change.
import { Lockstep } from "./lockstep.js";

const kept = new WeakMap();

export default function gantt(component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".kv-host");
  let player = kept.get(parentElement);
  if (!player || player.host !== host) {
    player?.dispose();
    player = new Lockstep(host);
    kept.set(parentElement, player);
    host.player = player; // for browser tests
  }
  player.update(component);
  return () => {
    player.dispose();
    kept.delete(parentElement);
  };
}
