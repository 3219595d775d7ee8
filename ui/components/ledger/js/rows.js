// Which claims are listed, on which page of the list, and what is said of them. No element here.
export const PAGE = 25;
export const NO_ANSWERS = { all: false, votes: {}, verdicts: {}, agree: {}, tally: null, open: null, wish: { id: null, n: 0 } };
export const VOTES = [
  { id: "true", word: "True", key: "T" },
  { id: "false", word: "False", key: "F" },
  { id: "depends", word: "It depends", key: "D" },
];
export const VERDICTS = {
  right: { word: "right", icon: "check", cls: "good" },
  "right-with-rounding": { word: "right with rounding", icon: "check", cls: "good" },
  inconsistent: { word: "inconsistent", icon: "split", cls: "mixed" },
  wrong: { word: "wrong", icon: "close", cls: "bad" },
  stripped: { word: "number lost", icon: "pen", cls: "lost" },
  unverifiable: { word: "no formula decides", icon: "help", cls: "undecided" },
};
export const NEEDS = {
  measurement: "A benchmark alone decides this",
  price: "A price alone decides this",
  convention: "This is a convention",
};
const DECIDES = { true: "true", false: "false", depends: "it depends" };

const own = (object, name) => Object.prototype.hasOwnProperty.call(object, name);

// A claim of which nothing is to be seen but what the text says.
export const isOpen = (row, answers) => !row.lost && !answers.all && !own(answers.votes, row.id);
export const sees = (row, answers) => answers.all || own(answers.votes, row.id);
export const votedWord = (row, answers) => DECIDES[own(answers.votes, row.id) ? answers.votes[row.id] : ""] ?? "";

function byVotes(row, mine, answers) {
  const said = own(answers.votes, row.id) && !row.lost;
  if (mine === "open") return !row.lost && !said;
  if (mine === "voted") return said;
  return said && answers.agree[row.id] === (mine === "agree");
}

// place: {q, topic, source, mine, verdict}; a verdict counts only where all are shown.
export function matches(row, place, answers) {
  if (place.topic && row.topic !== place.topic) return false;
  if (place.source && row.source !== place.source) return false;
  if (place.mine && !byVotes(row, place.mine, answers)) return false;
  if (place.verdict && answers.all && answers.verdicts[row.id] !== place.verdict) return false;
  if (!place.q) return true;
  const text = `${row.id} ${row.section} ${row.says}`.toLowerCase();
  return place.q.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

export const listed = (rows, place, answers) => rows.filter((row) => matches(row, place, answers));
export const pages = (count) => Math.max(1, Math.ceil(count / PAGE));

// "51–75 of 297 claims"
export function span(count, page) {
  if (!count) return "No claim";
  const from = page * PAGE + 1;
  const to = Math.min(count, from + PAGE - 1);
  return count <= PAGE ? `${count} ${count === 1 ? "claim" : "claims"}` : `${from}–${to} of ${count} claims`;
}

export function tallyWords(tally) {
  if (!tally) return "";
  if (!tally.votes) return `No vote yet: ${tally.of} claims can be voted on`;
  return `${tally.votes} of ${tally.of} voted on, ${tally.agree} as the ledger has it`;
}

// What is told about a claim once its verdict is there.
export function verdictWords(detail, answers) {
  const said = { id: detail.id };
  const vote = votedWord(said, answers);
  const verdict = VERDICTS[detail.verdict].word;
  if (!vote) return verdict;
  return `${verdict}. You said ${vote}${answers.agree[detail.id] ? ", and the ledger agrees" : ""}.`;
}
