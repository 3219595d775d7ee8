// The entry that Streamlit calls: on mounting, and again whenever data or theme change.
import { LessonChart } from "./lessonchart.js";

const charts = new WeakMap();

export default function lessonChart(component) {
  const { parentElement, data } = component;
  const host = parentElement.querySelector(".kv-host");
  let chart = charts.get(parentElement);
  if (!chart || chart.host !== host) {
    chart?.dispose();
    chart = new LessonChart();
    chart.host = host;
    host.replaceChildren(chart.root);
    charts.set(parentElement, chart);
  }
  chart.update(data);
  return () => {
    chart.dispose();
    charts.delete(parentElement);
  };
}
