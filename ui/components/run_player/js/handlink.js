// A link goes to the clipboard, or, without permission, stands there to be copied by hand.
const AGAIN_MS = 1600;

// word: of the button that was pressed; field: where the link is shown; say: told to screen readers.
export async function handLink(url, { word, field, say }) {
  try {
    await navigator.clipboard.writeText(url);
    field.hidden = true;
    word.textContent = "Copied";
    say("Link copied");
    clearTimeout(word.again);
    word.again = setTimeout(() => (word.textContent = "Copy link"), AGAIN_MS);
  } catch {
    field.hidden = false;
    field.value = url;
    field.focus();
    field.select();
  }
}
