// The entry that Streamlit calls.
import { mounting } from "../../run_player/js/mount.js";
import { Planner } from "./planner.js";

export default mounting(Planner, "planner");
