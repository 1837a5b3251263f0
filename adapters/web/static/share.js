// The page of a shared chat: the Markdown of its answers, which stands there as text, becomes what it means.

import { render } from "./markdown.js";

for (const source of document.querySelectorAll(".source")) {
  const text = render(source.textContent);
  // Files are not shared, whatever a text says of their addresses.
  for (const part of text.querySelectorAll('a[href^="/"], img')) part.replaceWith(part.textContent || part.alt || "");
  source.replaceChildren(text);
  source.classList.remove("source");
}
