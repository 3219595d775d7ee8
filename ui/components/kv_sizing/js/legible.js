// Arithmetic for the eye: thousands apart, and no more digits than one reads.
const apart = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");
const WHOLE = /(?<![\d.,])\d{4,}(?![\d.])/g;

// digits: how many of a fraction count
export const legible = (text, digits = 4) => text.replace(/\d+\.\d{5,}/g, (v) => String(Number(Number(v).toPrecision(digits)))).replace(WHOLE, apart);
