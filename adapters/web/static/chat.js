// The chat page: sends what is typed, follows the events of each turn, finds back after a lost connection or a reload.

import { openMemories } from "./memories.js";
import { events, newId, pause, refusal } from "./stream.js";
import { TurnView, chatEntry, chip, faultLine, icon, node, personMessage, sizeText } from "./view.js";

const $ = (id) => document.getElementById(id);
const KEPT = "parley.chat";
const WAITS = [500, 1000, 2000, 4000, 8000, 15000];

const page = {
  chat: null,
  chats: [],
  picked: [],
  turns: new Map(),
  running: new Set(),
  loaded: Promise.resolve(),
  due: null,
};

// --- the conversation -------------------------------------------------------------------------------------------------

function openChat(chat) {
  page.loaded = load(chat);
  return page.loaded;
}

async function load(chat) {
  page.chat = chat;
  page.turns = new Map();
  page.running = new Set();
  // The fragment would show a chat twice in the browser's history.
  history.replaceState(null, "", `#${chat}`);
  localStorage.setItem(KEPT, chat);
  $("log").replaceChildren();
  $("welcome").hidden = true;
  closeSidebar();
  refresh();
  const response = await fetchSurely(`/chat/history?chat=${chat}`);
  if (page.chat !== chat) return;
  if (!response.ok) {
    $("log").append(faultLine(await refusal(response)));
    return;
  }
  const said = await response.json();
  page.chats = said.chats;
  for (const event of said.events) show(event);
  for (const message of said.open) {
    if (message.turn_id === null) append(personMessage(message.content, message.files));
    follow(chat, message.event_id, null, page.turns.get(message.turn_id));
  }
  refresh();
  toEnd(true);
  watchDue();
}

// Shows what scheduled jobs say while the page is open. A page that nobody sees keeps no connection: a browser has few.
async function watchDue() {
  page.due?.abort();
  if (document.hidden) return;
  const watch = new AbortController();
  page.due = watch;
  const { chat } = page;
  for (let failures = 0; !watch.signal.aborted; failures += 1) {
    const after = Math.max(0, ...page.turns.keys());
    try {
      const response = await fetch(`/chat/due?chat=${chat}&after=${after}`, { signal: watch.signal });
      if (!response.ok && response.status < 500) return;
      for await (const event of response.ok ? events(response) : []) {
        if (watch.signal.aborted) return;
        failures = 0;
        showDue(event);
      }
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
    }
    await pause(WAITS[Math.min(failures, WAITS.length - 1)]);
  }
}

function showDue(event) {
  if (event.name === "error") return;
  const stays = nearEnd();
  // It was shown already when the page was opened while it was being answered.
  if (event.name !== "user_message" || !page.turns.has(event.turn_id)) show(event);
  if (event.name === "message") $("announcer").textContent = event.content;
  if (stays) toEnd();
}

// What the person says next answers the question before it, or leaves it: its buttons go.
function append(message) {
  for (const choices of $("log").querySelectorAll(".choices")) choices.remove();
  $("log").append(message);
}

function show(event) {
  if (event.name === "user_message") {
    append(personMessage(event.content));
    return;
  }
  turnOf(event).take(event);
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
  if (event.turn_id) page.turns.set(event.turn_id, turn);
  return turn;
}

// Reads the events of one message until its turn is complete, over as many connections as that takes.
async function follow(chat, eventId, response, placeholder, resend) {
  const turn = { view: placeholder ?? new TurnView(), isDone: false };
  if (!turn.view.node.isConnected) $("log").append(turn.view.node);
  page.running.add(eventId);
  refresh();
  for (let failures = 0; !turn.isDone && page.chat === chat; failures += 1) {
    try {
      response ??= await fetch(`/chat/events?event_id=${eventId}`);
      if (response.ok) {
        offline(false);
        await read(chat, response, turn, () => { failures = 0; });
      } else if (response.status === 404 && resend) {
        response = await resend();
        continue;
      } else if (response.status < 500) {
        return refused(chat, eventId, turn.view, await refusal(response));
      }
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
    }
    response = null;
    if (turn.isDone || page.chat !== chat) break;
    offline(failures > 0);
    await pause(WAITS[Math.min(failures, WAITS.length - 1)]);
  }
  ended(chat, eventId);
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

function refused(chat, eventId, view, reason) {
  view.node.remove();
  ended(chat, eventId);
  $("log").append(faultLine(reason));
  toEnd();
}

function ended(chat, eventId) {
  if (page.chat !== chat) return;
  offline(false);
  page.running.delete(eventId);
  refresh();
  if (nearEnd()) toEnd();
}

// --- sending ------------------------------------------------------------------------------------------------------------

async function send() {
  // What was said before comes first; a message sent meanwhile would be shown twice.
  await page.loaded;
  const content = $("text").value.trim();
  const files = page.picked;
  if (!content && !files.length) return;
  $("text").value = "";
  page.picked = [];
  say(content, files);
}

function say(content, files, confirmation) {
  const chat = page.chat;
  const eventId = newId();
  append(personMessage(content, files.map((file) => ({ filename: file.name, size_bytes: file.size }))));
  if (!page.chats.some((each) => each.chat === chat)) page.chats.unshift({ chat, title: content || files[0].name });
  const view = new TurnView();
  $("log").append(view.node);
  fit();
  toEnd(true);
  const post = () => fetch("/chat/messages", { method: "POST", body: form(chat, eventId, content, files, confirmation) });
  deliver(chat, eventId, view, post);
}

async function deliver(chat, eventId, view, post) {
  page.running.add(eventId);
  refresh();
  let response = null;
  try {
    response = await post();
  } catch (error) {
    // It may have arrived all the same: `follow` asks, and sends it again when it has not.
    if (!(error instanceof TypeError)) throw error;
  }
  await follow(chat, eventId, response, view, post);
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

// --- files --------------------------------------------------------------------------------------------------------------

function pick(files) {
  page.picked = [...page.picked, ...files];
  refresh();
  $("text").focus();
}

function pickedEntry(file, position) {
  const remove = node("button", "remove", icon("close"));
  remove.type = "button";
  remove.setAttribute("aria-label", `Remove ${file.name}`);
  remove.addEventListener("click", () => {
    page.picked = page.picked.filter((_, index) => index !== position);
    refresh();
  });
  return node("li", "", chip(file.name, sizeText(file.size), remove));
}

function carriesFiles(event) {
  return Array.from(event.dataTransfer?.types ?? []).includes("Files");
}

// --- what the page looks like ---------------------------------------------------------------------------------------------

function refresh() {
  const current = page.chats.find((each) => each.chat === page.chat);
  $("title").textContent = current?.title || "New chat";
  document.title = current?.title ? `${current.title} · Parley` : "Parley";
  $("chats").replaceChildren(...page.chats.map((each) => chatEntry(each, each.chat === page.chat)));
  $("picked").replaceChildren(...page.picked.map(pickedEntry));
  $("stop").hidden = page.running.size === 0;
  $("send").disabled = !$("text").value.trim() && !page.picked.length;
  $("welcome").hidden = $("log").childElementCount > 0;
}

function fit() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight, 240)}px`;
  refresh();
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
  $("status").textContent = isLost ? "The connection is lost; trying again …" : "";
}

function openSidebar(isOpen) {
  document.body.classList.toggle("menu-open", isOpen);
  $("menu").setAttribute("aria-expanded", String(isOpen));
}

function closeSidebar() {
  openSidebar(false);
}

// --- what people do -------------------------------------------------------------------------------------------------------

$("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("text").addEventListener("input", fit);
$("text").addEventListener("keydown", (event) => {
  // While an input method composes, Enter picks a word.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
$("text").addEventListener("paste", (event) => {
  if (!event.clipboardData.files.length) return;
  event.preventDefault();
  pick(event.clipboardData.files);
});
$("stop").addEventListener("click", stop);
$("log").addEventListener("choice", (event) => say(event.detail.text, [], event.detail.confirmation));
$("attach").addEventListener("click", () => $("files").click());
$("files").addEventListener("change", () => { pick($("files").files); $("files").value = ""; });
$("menu").addEventListener("click", () => openSidebar(!document.body.classList.contains("menu-open")));
$("shade").addEventListener("click", closeSidebar);
$("open-memories").addEventListener("click", () => { closeSidebar(); openMemories(page.chat); });
$("new-chat").addEventListener("click", async () => { await openChat(newId()); $("text").focus(); });
$("welcome").addEventListener("click", (event) => {
  const idea = event.target.closest("button");
  if (!idea) return;
  $("text").value = idea.textContent;
  send();
});
document.addEventListener("visibilitychange", () => page.loaded.then(watchDue));
document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeSidebar(); });
document.addEventListener("dragover", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  document.body.classList.add("dropping");
});
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
document.addEventListener("drop", (event) => {
  document.body.classList.remove("dropping");
  if (!carriesFiles(event)) return;
  event.preventDefault();
  pick(event.dataTransfer.files);
});

const named = () => (/^#[A-Za-z0-9_-]{1,64}$/.test(location.hash) ? location.hash.slice(1) : null);
addEventListener("hashchange", () => { if (named() && named() !== page.chat) openChat(named()); });
openChat(named() ?? localStorage.getItem(KEPT) ?? newId());
