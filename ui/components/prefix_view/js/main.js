// The entry that Streamlit calls.
import { mounting } from "../../run_player/js/mount.js";
import { PrefixView } from "./prefixview.js";

export default mounting(PrefixView, "view");
