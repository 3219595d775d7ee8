// The roofline instrument: ranges of steps, sums over them, names beside marks, and one change in
// flight at a time.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { LogLog } from "../../ui/components/live_run/js/loglog.js";
import { kindsOf, parseRanges, rangesOf, sayRanges, stepsOf, total, writeRanges } from "../../ui/components/roofline/js/measured.js";
import { Outbox } from "../../ui/components/roofline/js/outbox.js";
import { places, touches } from "../../ui/components/roofline/js/places.js";
import { rateText } from "../../ui/components/roofline/js/plane.js";
import { Roofline } from "../../ui/components/roofline/js/roofline.js";
import { sheet, sheetCsv } from "../../ui/components/roofline/js/tables.js";

const columns = ["flops", "bytes", "us", "intensity", "rate", "mfu", "mbu"];
const part = (flops, bytes, us) => [flops, bytes, us, flops / bytes, (flops * 1e6) / us, null, null];
const measured = {
  columns,
  rows: [
    [0, "prefill", 8, 1, 120, part(800, 100, 100), part(700, 90, 60), part(100, 10, 20)],
    [1, "decode", 1, 1, 60, part(100, 100, 50), part(90, 90, 40), part(6, 2, 5)],
    [3, "decode", 2, 2, 62, part(200, 104, 50), part(180, 90, 40), null],
    [4, "both", 3, 2, 70, part(300, 110, 50), part(280, 90, 40), part(12, 4, 5)],
  ],
};
const steps = stepsOf(measured);

test("rows become steps; a part that did nothing stays nothing", () => {
  assert.equal(steps[2].step, 3);
  assert.deepEqual([steps[0].whole.flops, steps[0].matrices.bytes, steps[0].attention.us], [800, 90, 20]);
  assert.equal(steps[2].attention, null);
  assert.equal(kindsOf(steps), "1 prefill, 2 decode, 1 mixed");
});

test("ranges are written, read and said; steps that are not there are left out", () => {
  assert.deepEqual([...parseRanges("1-3", steps)], [1, 3]);
  assert.deepEqual([...parseRanges("0,4,99", steps)], [0, 4]);
  assert.deepEqual([...parseRanges("", steps)], []);
  const ranges = rangesOf(new Set([0, 3, 4]), steps);
  assert.deepEqual(ranges, [[0, 0], [3, 4]]);
  assert.equal(writeRanges(ranges), "0,3-4");
  assert.deepEqual([...parseRanges(writeRanges(ranges), steps)], [0, 3, 4]);
  assert.equal(sayRanges(ranges), "Steps 0, 3–4");
  assert.equal(sayRanges([[9, 9]]), "Step 9");
});

test("several steps add up to one: work and time are summed, rates are of the sums", () => {
  const top = { flops_per_s: 2e7, read_bytes_per_s: 4e6 };
  const sum = total(steps.slice(0, 2), "whole", top);
  assert.deepEqual([sum.flops, sum.bytes, sum.us], [900, 200, 150]);
  assert.equal(sum.intensity, 4.5);
  assert.equal(sum.rate, 6e6);
  assert.ok(Math.abs(sum.mfu - 0.3) < 1e-12 && Math.abs(sum.mbu - 1 / 3) < 1e-12);
  assert.equal(total(steps, "attention", null).flops, 118);
  assert.equal(total(steps, "whole", null).mfu, null);
  assert.equal(total([steps[2]], "attention", top), null);
});

test("the sheet holds every number of every step", () => {
  const { head, rows } = sheet(steps);
  assert.equal(head.length, 5 + 3 * columns.length);
  for (const row of rows) assert.equal(row.length, head.length);
  assert.equal(rows[0][head.indexOf("attention_flops")], 100);
  assert.equal(rows[2][head.indexOf("attention_flops")], "");
  assert.equal(sheetCsv({ head, rows }).split("\r\n").length, 1 + rows.length + 1);
});

test("names stand beside their marks and never on another", () => {
  const box = { x0: 0, x1: 400, y0: 0, y1: 200 };
  const name = (x, y) => ({ x, y, width: 100, height: 14, r: 10 });
  const wanted = [name(50, 100), name(60, 102), name(390, 100), name(200, 5)];
  const found = places(wanted, [], box);
  const areas = found.map((f, i) => f && { x0: f.anchor === "start" ? f.x : f.x - 100, y: f.y, w: wanted[i] });
  assert.ok(found.every(Boolean));
  assert.equal(found[2].anchor, "end", "at the right edge the name stands to the left");
  for (let i = 0; i < areas.length; i++)
    for (let j = 0; j < i; j++) assert.ok(Math.abs(areas[i].x0 - areas[j].x0) >= 100 || Math.abs(areas[i].y - areas[j].y) >= 14, `${i} ${j}`);
  assert.equal(places([name(50, 100)], [box], box)[0], null);
});

test("a name stands off the lines, further away if it must, and on one only where there is no other room", () => {
  const box = { x0: 0, x1: 400, y0: 0, y1: 200 };
  const name = { x: 300, y: 100, width: 100, height: 14, r: 10, far: true };
  const flat = (y) => [0, y, 400, y];
  const own = flat(100);
  const free = places([name], [], box, [own])[0];
  assert.ok(!touches(own, free.area) && Math.abs(free.y - 100) < 30);
  const between = places([name], [], box, [own, flat(88), flat(112)])[0];
  for (const line of [own, flat(88), flat(112)]) assert.ok(!touches(line, between.area));
  assert.ok(Math.abs(between.y - 100) < 60, "and no further than it must");
  const full = Array.from({ length: 40 }, (_, i) => flat(5 * i));
  assert.ok(places([name], [], box, full)[0], "there is no place off all of these");
  const rising = [0, 200, 300, 100];
  assert.ok(touches(rising, { x0: 90, x1: 110, y0: 160, y1: 175 }));
  assert.ok(!touches(rising, { x0: 90, x1: 110, y0: 100, y1: 150 }));
  assert.ok(!touches(rising, { x0: 310, x1: 380, y0: 80, y1: 120 }), "the line ends before");
});

test("rates at the axis are written in the unit that fits", () => {
  assert.deepEqual([1e8, 1e9, 1e11, 1e12, 1e16, 10].map(rateText), ["100 M", "1 G", "100 G", "1 T", "10 P", "10"]);
});

test("a power of ten is as far from the next everywhere", () => {
  const plane = new LogLog(null, { xs: [1, 10, 100], ys: [1e9, 1e10, 1e11], box: { left: 0, right: 200, top: 0, base: 100 }, u: 1 });
  assert.deepEqual([1, 10, 100].map(plane.X), [0, 100, 200]);
  assert.deepEqual([1e9, 1e10, 1e11].map(plane.Y), [100, 50, 0]);
  assert.ok(Math.abs(plane.slope() - (Math.atan2(50, 100) * 180) / Math.PI) < 1e-9);
});

test("while an answer is awaited only the newest change is kept, and it goes when the answer comes", () => {
  const sent = [];
  const box = new Outbox((what) => sent.push(what));
  box.put({ b: "2" });
  box.send();
  box.put({ b: "4" });
  box.put({ b: "8", n: "16" });
  box.send();
  assert.deepEqual(sent, [{ seq: 1, place: { b: "2" } }]);
  assert.equal(box.answered(1), true, "the reader has moved on");
  assert.deepEqual(sent[1], { seq: 2, place: { b: "8", n: "16" } });
  assert.equal(box.answered(1), true);
  assert.equal(box.answered(2), false);
  box.dispose();
});

test("no file turns strings into markup or code, or asks for anything over the network", () => {
  const folder = new URL("../../ui/components/roofline/js/", import.meta.url);
  const forbidden = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc|\bfetch\(|XMLHttpRequest|WebSocket|https?:\/\//;
  for (const name of readdirSync(folder)) assert.doesNotMatch(readFileSync(new URL(name, folder), "utf8"), forbidden, name);
});

test("Shift makes a range from the step that was picked, and takes it back", () => {
  const sent = [];
  const r = Object.assign(Object.create(Roofline.prototype), {
    steps,
    anchor: null,
    hovered: null,
    chosen: new Set(),
    data: { options: { longest: 400 } },
    outbox: { put: (change) => sent.push(change.steps) },
    hover() {},
    choose(chosen) {
      this.chosen = chosen;
    },
  });
  r.pick(1, false);
  r.pick(3, true);
  r.pick(4, true);
  assert.deepEqual([...r.chosen], [1, 3, 4]);
  r.pick(3, true);
  assert.deepEqual([...r.chosen], [1, 3], "back towards where it began");
  r.pick(0, true);
  assert.deepEqual([...r.chosen], [0, 1]);
  r.brush([]);
  r.pick(4, true);
  assert.deepEqual([...r.chosen], [4]);
  assert.deepEqual(sent, ["1", "1-3", "1-4", "1-3", "0-1", "", "4"]);
});
