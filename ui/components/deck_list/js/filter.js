// Every word that was typed is somewhere in the card's name or group.
export function fits(card, filter) {
  const text = `${card.name} ${card.group}`.toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
