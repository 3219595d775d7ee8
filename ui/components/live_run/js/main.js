// The entry that Streamlit calls.
import { mounting } from "../../run_player/js/mount.js";
import { Bench } from "./bench.js";

export default mounting(Bench, "bench");
