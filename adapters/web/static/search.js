// The search over all chats of the person: by words, as they are typed.

import { openSidebar } from "./frame.js";
import { faultLine, node } from "./nodes.js";
import { refusal } from "./stream.js";
import { texts } from "./texts.js";

const $ = (id) => document.getElementById(id);
const WAIT = 250;
const BUSY_WAIT = 1000;
const DAY = new Intl.DateTimeFormat(texts.language, { dateStyle: "medium" });

let waiting = null;

// `open` is called with the chat and the turn of a match.
export function onMatch(open) {
  $("matches").addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    open(link.dataset.chat, Number(link.dataset.turn));
  });
}

export function searchFor(words) {
  openSidebar();
  $("search-words").value = words;
  $("search-words").focus();
  search();
}

async function search() {
  const words = $("search-words").value.trim();
  $("matches").hidden = !words;
  $("chat-list").hidden = Boolean(words);
  if (!words) return;
  try {
    const response = await fetch(`/page/search?words=${encodeURIComponent(words)}`);
    // Meanwhile something else is searched for.
    if (words !== $("search-words").value.trim()) return;
    if (response.status === 429) {
      // What was typed before is still being searched for.
      clearTimeout(waiting);
      waiting = setTimeout(search, BUSY_WAIT);
      return;
    }
    if (!response.ok) {
      $("matches").replaceChildren(node("li", "", faultLine(await refusal(response))));
      return;
    }
    const { matches } = await response.json();
    const [exact, similar] = [false, true].map((isSimilar) => matches.filter((match) => match.is_similar === isSimilar).map((match) => entry(match, words)));
    const rest = similar.length ? [node("li", "day", texts.about_the_same), ...similar] : [];
    $("matches").replaceChildren(...(exact.length ? exact : [node("li", "none", texts.nothing_found)]), ...rest);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    $("matches").replaceChildren(node("li", "none", texts.unreachable));
  }
}

function entry(match, words) {
  const facts = `${match.is_own ? texts.you : "Parley"} · ${DAY.format(new Date(match.at))}`;
  const link = node("a", "", node("span", "snippet", ...marked(match.snippet, words)), node("span", "match-facts", facts));
  link.href = `#${match.chat}`;
  link.dataset.chat = match.chat;
  link.dataset.turn = match.turn_id;
  return node("li", "", link);
}

// The text with each of the words in a mark; the longest first, so that one which begins another ends no mark early.
function marked(text, words) {
  const patterns = words.split(/\s+/).sort((a, b) => b.length - a.length).map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  return text.split(new RegExp(`(${patterns.join("|")})`, "giu")).map((part, index) => (index % 2 ? node("mark", "", part) : part));
}

$("search").addEventListener("submit", (event) => { event.preventDefault(); search(); });
$("search-words").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, WAIT); });
