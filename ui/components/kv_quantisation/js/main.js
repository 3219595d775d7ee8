// The entry that Streamlit calls.
import { mounting } from "../../run_player/js/mount.js";
import { Quantise } from "./quantise.js";

export default mounting(Quantise, "instrument");
