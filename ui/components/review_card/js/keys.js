// Keys of the card, by what they mean.
export const digit = (key) => (/^[1-4]$/.test(key) ? Number(key) : null);
export const isSpace = (key) => key === " ";
