// The entry that Streamlit calls: on mounting, and again whenever data or theme change. The player
// is kept by its parent element, so a rerun of the page does not move it.
import { Player } from "./player.js";

const players = new WeakMap();

export default function runPlayer(component) {
  const { parentElement } = component;
  const host = parentElement.querySelector(".kv-host");
  let player = players.get(parentElement);
  if (!player || player.host !== host) {
    player?.dispose();
    player = new Player(host);
    players.set(parentElement, player);
    host.player = player; // for browser tests, which measure how long a step takes
  }
  player.update(component);
  return () => {
    player.dispose();
    players.delete(parentElement);
  };
}
