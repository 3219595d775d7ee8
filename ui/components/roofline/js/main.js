// The entry that Streamlit calls.
import { mounting } from "../../run_player/js/mount.js";
import { Roofline } from "./roofline.js";

export default mounting(Roofline, "instrument");
