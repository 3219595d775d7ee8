// A button that copies the link to one claim: with neither filters nor verdicts in it.
import { icon } from "../../run_player/js/icons.js";
import { button, el } from "../../run_player/js/util.js";

export function claimAddress(id, page) {
  const url = new URL(page);
  url.search = new URLSearchParams({ claim: id }).toString();
  url.hash = "";
  return url.toString();
}

export function claimLink(id) {
  const word = el("span", "", "Link");
  const go = button("btn quiet link", `Copy the link to ${id}`, icon("link"), word);
  const field = el("input", "linkfield");
  field.readOnly = true;
  field.hidden = true;
  field.setAttribute("aria-label", `Link to ${id}`);
  go.onclick = async () => {
    const url = claimAddress(id, window.location.href);
    try {
      await navigator.clipboard.writeText(url);
      word.textContent = "Copied";
    } catch {
      // Without permission the link is shown, selected, to be copied by hand.
      field.hidden = false;
      field.value = url;
      field.focus();
      field.select();
    }
  };
  return [go, field];
}
