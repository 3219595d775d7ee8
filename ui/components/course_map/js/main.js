// The entry that Streamlit calls: on mounting, and again whenever data or theme change.
import { Course } from "./course.js";

const courses = new WeakMap();

export default function courseMap({ parentElement, data, setTriggerValue }) {
  const host = parentElement.querySelector(".kv-host");
  let one = courses.get(parentElement);
  if (!one || one.host !== host) {
    one?.dispose();
    one = new Course();
    one.host = host;
    host.replaceChildren(one.root);
    courses.set(parentElement, one);
  }
  one.update(data, setTriggerValue);
  return () => {
    one.dispose();
    courses.delete(parentElement);
  };
}
