// What stands around the conversation: the place that is read, the list of chats on a phone, the line about the connection.

import { texts } from "./texts.js";

const $ = (id) => document.getElementById(id);
const PAST_PIXELS = 800;

export const isNear = (element) => !element.hidden && element.getBoundingClientRect().bottom > -PAST_PIXELS;

// Who reads the end stays there however much comes at once; who has scrolled up stays where they read.
const place = { isEnd: true, top: 0 };

export function toEnd() {
  place.isEnd = true;
  $("scroll").scrollTop = $("scroll").scrollHeight;
}

export function toPlace(element) {
  place.isEnd = false;
  element.scrollIntoView({ block: "start" });
}

$("scroll").addEventListener("scroll", () => {
  const { scrollTop, scrollHeight, clientHeight } = $("scroll");
  const below = scrollHeight - scrollTop - clientHeight;
  // Who goes up leaves the end at once, as text that comes meanwhile would pull them back. What has just come below, or
  // is shorter now, is no reader's going.
  if (scrollTop < place.top) place.isEnd = below < 2;
  else if (below < 120) place.isEnd = true;
  place.top = scrollTop;
}, { passive: true });
const sizes = new ResizeObserver(() => { if (place.isEnd) toEnd(); });
sizes.observe($("log"));
sizes.observe($("scroll"));

export function offline(isLost) {
  $("status").hidden = !isLost;
  const reason = navigator.onLine ? texts.connection_lost : texts.you_are_offline;
  $("status").textContent = isLost ? reason : "";
}

// Who presses a button by keys that goes away with it goes on where they write.
export function leave(button) {
  if (button?.matches(":focus-visible")) $("text").focus();
}

export function openSidebar(isOpen = true) {
  document.body.classList.toggle("menu-open", isOpen);
  $("menu").setAttribute("aria-expanded", String(isOpen));
}

export function closeSidebar() {
  openSidebar(false);
}

$("menu").addEventListener("click", () => openSidebar(!document.body.classList.contains("menu-open")));
$("shade").addEventListener("click", closeSidebar);
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("text").focus(); });
addEventListener("offline", () => offline(true));
addEventListener("online", () => offline(false));
