// The entry that Streamlit calls.
import { mounting } from "../../run_player/js/mount.js";
import { Sizing } from "./sizing.js";

export default mounting(Sizing, "sizing");
