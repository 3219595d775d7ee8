// The chart's values as a file.
const quote = (s) => (/[",\n\r]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s);
// A spreadsheet would run a cell that begins like a formula.
const cell = (s) => quote(/^[=+\-@\t\r]/.test(s) ? `'${s}` : s);

export function asCsv(data) {
  const head = [data.x.unit ? `${data.x.label} (${data.x.unit})` : data.x.label, ...data.lines.map((line) => (data.unit ? `${line.name} (${data.unit})` : line.name))];
  const rows = [head.map(cell).join(",")];
  data.x.values.forEach((x, i) => rows.push([x, ...data.lines.map((line) => line.values[i] ?? "")].join(",")));
  return `${rows.join("\r\n")}\r\n`;
}
