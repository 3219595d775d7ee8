// The entry that Streamlit calls.
import { mounting } from "./mount.js";
import { Player } from "./player.js";

export default mounting(Player, "player");
