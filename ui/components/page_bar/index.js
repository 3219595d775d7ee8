// Copy the page's link with every control in it; go to the projector's view and back.
//   data: {present, link: a query that replaces the address's own, or null}
const PATHS = {
  link: "M9 15l6-6M10.5 6.5l1-1a4.2 4.2 0 016 6l-1 1M13.5 17.5l-1 1a4.2 4.2 0 01-6-6l1-1",
  present: "M3 5h18v11H3zM12 16v4M8 20h8",
};
const NS = "http://www.w3.org/2000/svg";
const kept = new WeakMap();

function icon(name) {
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(NS, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

function address(data) {
  const url = new URL(window.location.href);
  if (data.link !== null) url.search = data.link;
  url.hash = "";
  return url.toString();
}

// The main area scrolls, not the document: the page keys reach it only once somebody has clicked
// into it. A clicker has nothing else.
export function turn(event, main, focused) {
  const by = { PageDown: 1, PageUp: -1 }[event.key];
  if (!by || !main || focused || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  event.preventDefault();
  main.scrollBy({ top: by * 0.9 * main.clientHeight });
}

export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".bar");
  const [copy, present, field] = root.querySelectorAll("button, input");
  const state = kept.get(root) ?? { timer: 0, stop: null };
  kept.set(root, state);
  root.dataset.scale = data.present ? "present" : "";
  const said = root.querySelector("[role=status]");

  function draw(button, name, word) {
    const text = document.createElement("span");
    text.textContent = word;
    button.replaceChildren(icon(name), text);
  }
  draw(copy, "link", "Copy link");
  draw(present, "present", data.present ? "Leave" : "Present");
  present.setAttribute("aria-pressed", String(data.present));
  present.onclick = () => setTriggerValue("present", !data.present);
  copy.onclick = async () => {
    const url = address(data);
    try {
      await navigator.clipboard.writeText(url);
      field.hidden = true;
      copy.lastChild.textContent = "Copied";
      said.textContent = "Link copied";
      clearTimeout(state.timer);
      state.timer = setTimeout(() => (copy.lastChild.textContent = "Copy link"), 1600);
    } catch {
      // Without permission the link is shown, selected, to be copied by hand.
      field.hidden = false;
      field.value = url;
      field.focus();
      field.select();
    }
  };
  const onKey = (event) => {
    if (event.key === "Escape" && data.present && !event.defaultPrevented) setTriggerValue("present", false);
    const { activeElement, body } = document;
    turn(event, document.querySelector('[data-testid="stMain"]'), activeElement !== null && activeElement !== body);
  };
  state.stop?.();
  window.addEventListener("keydown", onKey);
  state.stop = () => window.removeEventListener("keydown", onKey);
  return state.stop;
}
