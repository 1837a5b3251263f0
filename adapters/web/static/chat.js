// The chat page: sends what is typed, follows the events of each turn, finds back after a lost connection or a reload.

import { loadChats, showCurrent, touch } from "./chats.js";
import { limit, noteArrived, noteEnd, noteUnsent, openBox, putBack, takeMessage, write } from "./composer.js";
import { openMemories } from "./memories.js";
import { openMenuOf } from "./menu.js";
import { pastNodes, replyNodes } from "./past.js";
import { onMatch } from "./search.js";
import { events, newId, pause, refusal } from "./stream.js";
import { TurnView, faultLine, personMessage } from "./view.js";

const $ = (id) => document.getElementById(id);
const KEPT = "parley.chat";
const WAITS = [500, 1000, 2000, 4000, 8000, 15000];

const page = {
  chat: null,
  // By the turn's id.
  turns: new Map(),
  // What is being followed, by its address.
  running: new Set(),
  // Event ids that this window has sent, and inbox ids that it follows.
  own: new Set(),
  newest: { message: 0, turn: 0, reply: 0 },
  // The turn before which the past goes on; null: all of it is shown.
  oldest: null,
  loaded: Promise.resolve(),
  watch: null,
};

// --- the conversation -------------------------------------------------------------------------------------------------

export function openChat(chat) {
  page.loaded = load(chat);
  return page.loaded;
}

async function load(chat) {
  Object.assign(page, { chat, turns: new Map(), running: new Set(), own: new Set(), oldest: null });
  page.newest = { message: 0, turn: 0, reply: 0 };
  // The fragment would show a chat twice in the browser's history.
  history.replaceState(null, "", `#${chat}`);
  localStorage.setItem(KEPT, chat);
  $("log").replaceChildren();
  $("welcome").hidden = true;
  closeSidebar();
  openBox(chat);
  showCurrent(chat);
  openMenuOf(chat, () => newChat());
  const response = await fetchSurely(`/page/chats/${chat}/messages`);
  if (page.chat !== chat) return;
  if (!response.ok) {
    $("log").append(faultLine(await refusal(response)));
    return;
  }
  const body = await response.json();
  $("log").append(...pastNodes(body, keepTurn, { isNewest: true }));
  goOn(body);
  page.newest.reply = body.newest_reply;
  for (const message of body.open) arrive(message, message.turn_id !== null);
  refresh();
  toEnd(true);
  watchArrivals();
}

function keepTurn(turn, view) {
  page.newest.turn = Math.max(page.newest.turn, turn.turn_id);
  if (turn.is_running) page.turns.set(turn.turn_id, view);
}

const newChat = async () => { await openChat(newId()); $("text").focus(); };

// Opens a chat where a turn stands, however far back that is.
async function openAt(chat, turn) {
  if (chat !== page.chat) await openChat(chat);
  closeSidebar();
  const find = () => $("log").querySelector(`[data-turn="${turn}"]`);
  for (let read = null; !find() && page.oldest !== null && page.oldest !== read;) {
    read = page.oldest;
    await loadEarlier();
  }
  const answer = find();
  if (!answer) return;
  for (const other of $("log").querySelectorAll(".match")) other.classList.remove("match");
  answer.classList.add("match");
  // Behind the frame in which a chat that was just opened goes to its end.
  requestAnimationFrame(() => (answer.previousElementSibling ?? answer).scrollIntoView({ block: "start" }));
}

function goOn(body) {
  page.oldest = body.has_more ? body.turns[0].turn_id : null;
  $("earlier").hidden = page.oldest === null;
}

// Reads the page of the past before the oldest turn that is shown; what is in view stays where it is.
async function loadEarlier() {
  const { chat, oldest } = page;
  if (oldest === null || page.isReadingPast) return;
  page.isReadingPast = true;
  try {
    const response = await fetch(`/page/chats/${chat}/messages?before=${oldest}`);
    if (!response.ok || page.chat !== chat || page.oldest !== oldest) return;
    const body = await response.json();
    const first = $("log").firstElementChild;
    const top = first?.getBoundingClientRect().top;
    $("log").prepend(...pastNodes(body, () => {}, { isNewest: false }));
    goOn(body);
    if (first) $("scroll").scrollTop += first.getBoundingClientRect().top - top;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    offline(true);
  } finally {
    page.isReadingPast = false;
  }
  if (isNear($("earlier"))) loadEarlier();
}

const isNear = (element) => !element.hidden && element.getBoundingClientRect().bottom > -PAST_PIXELS;
const PAST_PIXELS = 800;

// Shows what other windows and scheduled jobs say while the page is open. A page that nobody sees keeps no connection: a
// browser has few.
async function watchArrivals() {
  page.watch?.abort();
  if (document.hidden) return;
  const watch = new AbortController();
  page.watch = watch;
  const { chat } = page;
  for (let failures = 0; !watch.signal.aborted; failures += 1) {
    const { message, turn, reply } = page.newest;
    const address = `/page/chats/${chat}/arrivals?after=${message}&after_turn=${turn}&after_reply=${reply}`;
    try {
      const response = await fetch(address, { signal: watch.signal });
      if (!response.ok && response.status < 500) return;
      for await (const event of response.ok ? events(response) : []) {
        if (watch.signal.aborted) return;
        failures = 0;
        if (event.name === "arrival") arrive(event);
        if (event.name === "reply") showReply(event);
      }
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
    }
    await pause(WAITS[Math.min(failures, WAITS.length - 1)]);
  }
}

// A message that is not answered yet, or was not when this window showed the chat; `isShown`: its text is there already.
function arrive(message, isShown = false) {
  page.newest.message = Math.max(page.newest.message, message.message);
  if (page.own.has(message.event_id) || page.own.has(message.message)) return;
  page.own.add(message.message);
  const stays = nearEnd();
  if (!isShown || !page.turns.has(message.turn_id)) append(personMessage(message.content, message.files));
  if (stays) toEnd(true);
  const address = `/page/chats/${page.chat}/messages/${message.message}/events`;
  follow(page.chat, address, null, page.turns.get(message.turn_id));
}

function showReply(reply) {
  page.newest.reply = Math.max(page.newest.reply, reply.reply_id);
  if (page.own.has(reply.event_id)) return;
  const stays = nearEnd();
  append(...replyNodes(reply));
  refresh();
  if (stays) toEnd();
}

// What the person says next answers the question before it, or leaves it: its buttons go.
function append(...messages) {
  for (const choices of $("log").querySelectorAll(".choices, .again")) {
    if (choices.contains(document.activeElement)) $("text").focus();
    choices.remove();
  }
  $("log").append(...messages);
}

function turnOf(event, placeholder) {
  let turn = page.turns.get(event.turn_id);
  if (turn) {
    if (placeholder && placeholder !== turn) {
      // Whichever of the messages heard of the turn first: the answer stands below the last of them.
      const isBelow = turn.node.compareDocumentPosition(placeholder.node) & Node.DOCUMENT_POSITION_FOLLOWING;
      if (isBelow) placeholder.node.replaceWith(turn.node);
      else placeholder.node.remove();
    }
    return turn;
  }
  turn = placeholder ?? new TurnView();
  if (!turn.node.isConnected) $("log").append(turn.node);
  // Several messages sent in a row become one turn: its answer stands below the last of them.
  if (event.turn_id) {
    page.turns.set(event.turn_id, turn);
    page.newest.turn = Math.max(page.newest.turn, event.turn_id);
  }
  return turn;
}

// Reads the events of one message until its turn is complete, over as many connections as that takes. `sent` is what can
// be sent again, or put back.
async function follow(chat, address, response, placeholder, sent) {
  const turn = { view: placeholder ?? new TurnView(), isDone: false };
  if (!turn.view.node.isConnected) $("log").append(turn.view.node);
  page.running.add(address);
  refresh();
  for (let failures = 0; !turn.isDone && page.chat === chat; failures += 1) {
    try {
      response ??= await fetch(address);
      if (response.ok) {
        offline(false);
        sent?.hasArrived();
        await read(chat, response, turn, () => { failures = 0; });
      } else if (response.status === 404 && sent) {
        response = await sent.post();
        continue;
      } else if (response.status < 500) {
        return refused(chat, address, turn.view, await refusal(response), sent);
      }
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
    }
    response = null;
    if (turn.isDone || page.chat !== chat) break;
    offline(failures > 0);
    await pause(WAITS[Math.min(failures, WAITS.length - 1)]);
  }
  ended(chat, address);
}

async function read(chat, response, turn, heard) {
  for await (const event of events(response)) {
    if (page.chat !== chat) return;
    heard();
    if (event.name === "error") return;
    if (event.name === "user_message") continue;
    const stays = nearEnd();
    turn.view = turnOf(event, turn.view);
    turn.view.take(event);
    if (event.name === "message") $("announcer").textContent = event.content;
    if (event.name === "turn_complete") {
      turn.isDone = true;
      return;
    }
    if (stays) toEnd();
  }
}

function refused(chat, address, view, reason, sent) {
  view.node.remove();
  ended(chat, address);
  if (page.chat !== chat) return;
  if (sent) {
    sent.hasArrived();
    sent.node.remove();
    putBack(sent.content, sent.files);
  }
  $("log").append(faultLine(reason));
  toEnd();
}

function ended(chat, address) {
  if (page.chat !== chat) return;
  offline(false);
  page.running.delete(address);
  refresh();
  if (nearEnd()) toEnd();
}

// --- sending ------------------------------------------------------------------------------------------------------------

async function send() {
  // What was said before comes first; a message sent meanwhile would be shown twice.
  await page.loaded;
  const message = takeMessage();
  if (message) say(message.content, message.files);
}

function say(content, files, confirmation) {
  const chat = page.chat;
  const eventId = newId();
  page.own.add(eventId);
  const shown = personMessage(content, files.map((file) => ({ filename: file.name, size_bytes: file.size })));
  append(shown);
  touch(chat, content || files[0].name);
  const view = new TurnView();
  $("log").append(view.node);
  refresh();
  toEnd(true);
  const body = form(chat, eventId, content, files, confirmation);
  noteUnsent(chat, eventId, confirmation ? "" : content);
  const hasArrived = () => noteArrived(chat, eventId);
  const post = () => fetch("/chat/messages", { method: "POST", body });
  deliver(chat, eventId, view, { content, files, node: shown, post, hasArrived });
}

async function deliver(chat, eventId, view, sent) {
  const address = `/chat/events?event_id=${eventId}`;
  page.running.add(address);
  refresh();
  let response = null;
  try {
    response = await sent.post();
  } catch (error) {
    // It may have arrived all the same: `follow` asks, and sends it again when it has not.
    if (!(error instanceof TypeError)) throw error;
  }
  await follow(chat, address, response, view, sent);
  noteEnd(eventId);
}

function form(chat, eventId, content, files, confirmation) {
  const fields = new FormData();
  fields.set("chat", chat);
  fields.set("event_id", eventId);
  fields.set("content", content);
  if (confirmation) fields.set("confirmation", String(confirmation));
  for (const file of files) fields.append("files", file, file.name);
  return fields;
}

const lastWords = () => [...$("log").querySelectorAll(".person .bubble")].at(-1)?.textContent ?? "";

async function stop() {
  $("stop").disabled = true;
  try {
    const body = JSON.stringify({ chat: page.chat });
    await fetch("/chat/stop", { method: "POST", body, headers: { "Content-Type": "application/json" } });
  } catch {
    offline(true);
  }
  $("stop").disabled = false;
}

async function fetchSurely(address) {
  for (let failures = 0; ; failures += 1) {
    try {
      const response = await fetch(address);
      if (response.status < 500) {
        offline(false);
        return response;
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    offline(true);
    await pause(WAITS[Math.min(failures, WAITS.length - 1)]);
  }
}

// --- what the page looks like ---------------------------------------------------------------------------------------------

function refresh() {
  $("stop").hidden = page.running.size === 0;
  $("welcome").hidden = $("log").childElementCount > 0;
}

function nearEnd() {
  const { scrollTop, scrollHeight, clientHeight } = $("scroll");
  return scrollHeight - scrollTop - clientHeight < 120;
}

function toEnd(always = false) {
  requestAnimationFrame(() => {
    if (always || nearEnd()) $("scroll").scrollTop = $("scroll").scrollHeight;
  });
}

function offline(isLost) {
  $("status").hidden = !isLost;
  const reason = navigator.onLine ? "The connection is lost; trying again …" : "You are offline; what you write is kept here.";
  $("status").textContent = isLost ? reason : "";
}

function openSidebar(isOpen) {
  document.body.classList.toggle("menu-open", isOpen);
  $("menu").setAttribute("aria-expanded", String(isOpen));
}

function closeSidebar() {
  openSidebar(false);
}

// What this installation can do, and what its owner has to set up yet.
async function showState() {
  const response = await fetchSurely("/page/state");
  if (!response.ok) return;
  const state = await response.json();
  limit(state.max_bytes, state.max_files);
  $("open-admin").hidden = !state.has_admin_pages;
  $("no-model").hidden = state.has_model;
  $("no-model-owner").hidden = !state.is_owner;
  $("no-model-others").hidden = state.is_owner;
}

// --- what people do -------------------------------------------------------------------------------------------------------

$("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("text").addEventListener("keydown", (event) => {
  // What was said last, to say it otherwise.
  if (event.key === "ArrowUp" && !$("text").value && lastWords()) {
    event.preventDefault();
    write(lastWords());
  }
  // While an input method composes, Enter picks a word.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
$("stop").addEventListener("click", stop);
$("log").addEventListener("choice", (event) => say(event.detail.text, [], event.detail.confirmation));
$("log").addEventListener("again", () => { if (lastWords()) say(lastWords(), []); });
$("scroll").addEventListener("scroll", () => { if (isNear($("earlier"))) loadEarlier(); }, { passive: true });
$("earlier").addEventListener("click", loadEarlier);
$("menu").addEventListener("click", () => openSidebar(!document.body.classList.contains("menu-open")));
$("shade").addEventListener("click", closeSidebar);
$("open-memories").addEventListener("click", () => { closeSidebar(); openMemories(page.chat); });
$("new-chat").addEventListener("click", newChat);
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("text").focus(); });
onMatch(openAt);
$("welcome").addEventListener("click", (event) => {
  const idea = event.target.closest("button");
  if (!idea) return;
  write(idea.textContent);
  send();
});
document.addEventListener("visibilitychange", () => page.loaded.then(watchArrivals));
document.addEventListener("keydown", (event) => {
  // It closes what is open before it stops an answer.
  if (event.key !== "Escape" || document.querySelector("dialog[open], :popover-open")) return;
  if (document.body.classList.contains("menu-open")) closeSidebar();
  else if (page.running.size) stop();
});
addEventListener("offline", () => offline(true));
addEventListener("online", () => offline(false));

const named = () => (/^#[A-Za-z0-9_-]{1,64}$/.test(location.hash) ? location.hash.slice(1) : null);
addEventListener("hashchange", () => { if (named() && named() !== page.chat) openChat(named()); });
openChat(named() ?? localStorage.getItem(KEPT) ?? newId());
loadChats();
showState();
