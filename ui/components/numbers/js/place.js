// What is shown of the sheet, from where the reader stands. No element here.
export const shownGroups = (groups, place) => groups.filter((g) => !place.group || g.id === place.group);
export const groupOf = (groups, number) => groups.find((g) => g.numbers.some((n) => n.id === number))?.id ?? null;

// "3 of 11 looked at"
export function coverWords(looked, groups) {
  const all = groups.flatMap((g) => g.numbers);
  return `${all.filter((n) => looked.has(n.id)).length} of ${all.length} looked at`;
}
