// What stands around the conversation: the place that is read, the list of chats on a phone, the line about the connection.

import { texts } from "./texts.js";

const $ = (id) => document.getElementById(id);
const PAST_PIXELS = 800;

export const isNear = (element) => !element.hidden && element.getBoundingClientRect().bottom > -PAST_PIXELS;

export function nearEnd() {
  const { scrollTop, scrollHeight, clientHeight } = $("scroll");
  return scrollHeight - scrollTop - clientHeight < 120;
}

export function toEnd(always = false) {
  requestAnimationFrame(() => {
    if (always || nearEnd()) $("scroll").scrollTop = $("scroll").scrollHeight;
  });
}

export function offline(isLost) {
  $("status").hidden = !isLost;
  const reason = navigator.onLine ? texts.connection_lost : texts.you_are_offline;
  $("status").textContent = isLost ? reason : "";
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
