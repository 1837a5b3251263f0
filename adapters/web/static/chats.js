// The list of chats beside the conversation, which goes on without end.

import { faultLine, icon, node } from "./nodes.js";
import { refusal, sendJson } from "./stream.js";
import { texts } from "./texts.js";

const $ = (id) => document.getElementById(id);

const DAY = 24 * 60 * 60 * 1000;
const MONTH = new Intl.DateTimeFormat(texts.language, { month: "long", year: "numeric" });

const list = { chats: [], before: null, isLoading: false, current: null, newestTitle: 0 };

export const titleOf = (chat) => list.chats.find((entry) => entry.chat === chat)?.title ?? "";

// Those of which the list knows the name.
export const chatsNamed = () => list.chats.filter((entry) => entry.title);

export const chatOf = (chat) => list.chats.find((entry) => entry.chat === chat);

// Names or pins a chat; returns why that was refused, null when it was done.
export async function changeChat(chat, change) {
  const reason = await sendJson(`/page/chats/${chat}`, "PATCH", change);
  if (reason) return reason;
  list.chats = list.chats.filter((entry) => !entry.isNew);
  await loadChats();
  return null;
}

export async function loadChats(isMore = false) {
  if (list.isLoading || (isMore && !list.before)) return;
  list.isLoading = true;
  try {
    const response = await fetch(`/page/chats?before=${isMore ? encodeURIComponent(list.before) : ""}`);
    if (!response.ok) {
      $("chats").replaceChildren(node("li", "", faultLine(await refusal(response))));
      return;
    }
    const body = await response.json();
    const read = new Set(body.chats.map((entry) => entry.chat));
    // What was said since the list was asked for is not in it.
    const kept = list.chats.filter((entry) => (isMore || entry.isNew) && !read.has(entry.chat));
    list.chats = [...kept, ...body.chats];
    list.before = body.before;
    list.newestTitle = Math.max(list.newestTitle, body.newest_title);
    draw();
  } catch (error) {
    // The conversation says that the connection is lost, and asks for this list again.
    if (!(error instanceof TypeError)) throw error;
  } finally {
    list.isLoading = false;
  }
}

export function showCurrent(chat) {
  list.current = chat;
  draw();
}

// When a model has named a chat last, as far as this list knows.
export const newestTitle = () => list.newestTitle;

// A model has named a chat, of this window or another.
export function nameChat({ chat, title, newest_title: newest }) {
  list.newestTitle = newest;
  const known = chatOf(chat);
  if (!known) return touch(chat, title);
  known.title = title;
  return draw();
}

// A chat in which something was just said: the first one that is not pinned.
export function touch(chat, title) {
  const known = list.chats.find((entry) => entry.chat === chat);
  const rest = list.chats.filter((entry) => entry !== known);
  if (known?.is_pinned) return;
  const at = rest.filter((entry) => entry.is_pinned).length;
  list.chats = [...rest.slice(0, at), known ? { ...known, at: null } : { chat, title, is_pinned: false, isNew: true }, ...rest.slice(at)];
  draw();
}

function entry(chat) {
  const link = node("a", "", chat.title || texts.new_chat, ...(chat.is_pinned ? [icon("pin"), node("span", "unseen", texts.is_pinned)] : []));
  link.href = `#${chat.chat}`;
  if (chat.chat === list.current) link.setAttribute("aria-current", "page");
  return node("li", "", link);
}

// When something was said in a chat last; one in which something was just said has no time yet.
function dayOf(chat) {
  if (chat.is_pinned) return texts.pinned_chats;
  if (!chat.at) return texts.today;
  const at = new Date(chat.at);
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(chat.at).setHours(0, 0, 0, 0)) / DAY);
  if (days < 2) return days < 1 ? texts.today : texts.yesterday;
  return days < 8 ? texts.last_7_days : MONTH.format(at);
}

function entries() {
  let last = null;
  return list.chats.flatMap((chat) => {
    const day = dayOf(chat);
    const heading = day === last ? [] : [node("li", "day", day)];
    last = day;
    return [...heading, entry(chat)];
  });
}

function draw() {
  const title = titleOf(list.current);
  $("title").textContent = title || texts.new_chat;
  document.title = title ? `${title} · Parley` : "Parley";
  $("chats").replaceChildren(...entries());
  $("more-chats").hidden = !list.before;
  // It tells of a change alone: what is still near after a load, or came near during one, is told of again.
  atEnd.unobserve($("more-chats"));
  atEnd.observe($("more-chats"));
}

const atEnd = new IntersectionObserver((entries) => {
  if (entries.some((seen) => seen.isIntersecting)) loadChats(true);
}, { rootMargin: "300px" });
$("more-chats").addEventListener("click", () => loadChats(true));
