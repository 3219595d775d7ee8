// The entry that Streamlit calls.
import { mounting } from "../../run_player/js/mount.js";
import { Lockstep } from "./lockstep.js";

export default mounting(Lockstep, "player");
