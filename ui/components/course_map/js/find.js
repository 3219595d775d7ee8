// Search over the words of the course: pure, so that node can test it.
const MOST_WORDS = 8;
const ACCENTS = { "àáâãäå": "a", "èéêë": "e", "ìíîï": "i", "òóôõö": "o", "ùúûü": "u", "ç": "c", "ñ": "n" };
const PLAIN = new Map(Object.entries(ACCENTS).flatMap(([from, to]) => [...from].map((c) => [c, to])));

// Text by which words are compared, letter for letter as long as what it is made from: without
// capitals and accents, "-ize" as "-ise", and what joins words as a space.
export function folded(text) {
  let out = "";
  for (const unit of text.split("")) {
    const low = unit.toLowerCase();
    const one = low.length === 1 ? low : unit;
    out += PLAIN.get(one) ?? (/[-_/–·\u00a0]/.test(one) ? " " : one);
  }
  return out.replace(/iz(?=e|ing|ation)/g, "is");
}

// The words of a query, at most eight.
export function wordsOf(query) {
  return folded(query).split(/[^\p{L}\p{N}.]+/u).filter(Boolean).slice(0, MOST_WORDS);
}

export const prepared = (entries) => entries.map((entry) => ({ entry, title: folded(entry.title), head: folded(entry.head), text: folded(entry.text) }));

const isLetter = (c) => c !== undefined && /[\p{L}\p{N}]/u.test(c);

// Where a word begins in a text; within a word only what is long enough to mean something.
function places(text, word, most = 6) {
  const out = [];
  for (let at = text.indexOf(word); at >= 0 && out.length < most; at = text.indexOf(word, at + 1)) {
    if (!isLetter(text[at - 1])) out.push(at);
    else if (word.length >= 4) out.push(at);
  }
  return out;
}

const WEIGHTS = { Lesson: 3, Term: 3, Page: 2.5, "Lesson, in full": 1.5, Number: 1 };

function score(row, words) {
  let sum = WEIGHTS[row.entry.kind] ?? 0;
  let first = -1;
  for (const word of words) {
    const inTitle = places(row.title, word, 1).length;
    const inHead = places(row.head, word, 1).length;
    const inText = places(row.text, word);
    if (!inTitle && !inHead && !inText.length) return null;
    const whole = row.title.split(/, | /).includes(word);
    sum += (whole ? 14 : inTitle ? 9 : 0) + (inHead ? 7 : 0) + Math.min(inText.length, 6) * 0.6;
    if (inText.length && (first < 0 || inText[0] < first)) first = inText[0];
  }
  const phrase = words.join(" ");
  if (words.length > 1 && row.title.includes(phrase)) sum += 12;
  else if (words.length > 1 && row.head.includes(phrase)) sum += 9;
  else if (words.length > 1 && row.text.includes(phrase)) {
    sum += 6;
    first = row.text.indexOf(phrase);
  }
  if (row.title.split(", ").includes(phrase)) sum += 16;
  return { sum, first: Math.max(0, first) };
}

// What the query finds, best first: [{entry, first}], first: where in its text.
export function found(rows, query) {
  const words = wordsOf(query);
  if (!words.length) return [];
  const out = [];
  const seen = new Map();
  rows.forEach((row, i) => {
    const one = score(row, words);
    if (!one) return;
    // A part of a lesson comes once, at the level at which it says more of it.
    const key = row.entry.kind.startsWith("Lesson") ? row.entry.to.split("&")[0] : `${i}`;
    const before = seen.get(key);
    const made = { entry: row.entry, first: one.first, sum: one.sum, i };
    if (before === undefined) {
      seen.set(key, out.length);
      out.push(made);
    } else if (out[before].sum < one.sum) out[before] = made;
  });
  return out.sort((a, b) => b.sum - a.sum || a.i - b.i);
}

// A text around a place, cut between words, in pieces: [[words, marked], …].
export function excerpt(text, query, first, length = 190) {
  let from = Math.max(0, first - 60);
  if (from) from = text.indexOf(" ", from) + 1 || from;
  let to = Math.min(text.length, from + length);
  if (to < text.length) to = Math.max(from + 1, text.lastIndexOf(" ", to));
  return marked(text.slice(from, to), query, from > 0, to < text.length);
}

// A text in pieces, what the query names marked.
export function marked(text, query, before = false, after = false) {
  const low = folded(text);
  const on = new Array(text.length).fill(false);
  for (const word of wordsOf(query)) for (const at of places(low, word, 40)) on.fill(true, at, at + word.length);
  const out = before ? [["… ", false]] : [];
  for (let i = 0; i < text.length; ) {
    let j = i;
    while (j < text.length && on[j] === on[i]) j++;
    out.push([text.slice(i, j), on[i]]);
    i = j;
  }
  if (after) out.push([" …", false]);
  return out;
}
