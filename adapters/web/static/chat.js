// The chat page: sends what is typed, follows the events of each turn, finds back after a lost connection or a reload.

import { onBranches } from "./branches.js";
import { offerChoices, showChoices, takeChoices } from "./choices.js";
import { chatOf, loadChats, nameChat, newestTitle, showCurrent, touch } from "./chats.js";
import { limit, noteArrived, noteEnd, noteUnsent, openBox, takeMessage, write } from "./composer.js";
import { follow } from "./following.js";
import { closeSidebar, isNear, leave, offline, toEnd, toPlace } from "./frame.js";
import { openMemories } from "./memories.js";
import { openMenuOf } from "./menu.js";
import { faultLine, node } from "./nodes.js";
import { notifies, notify } from "./notices.js";
import { append, page, refresh } from "./page.js";
import "./palette.js";
import { pastNodes, replyNodes } from "./past.js";
import { onMatch } from "./search.js";
import { WAITS, events, fetchSurely, newId, pause, refusal } from "./stream.js";
import { TurnView, nameTools, personMessage } from "./view.js";

const $ = (id) => document.getElementById(id);
const KEPT = "parley.chat";

// --- the conversation -------------------------------------------------------------------------------------------------

export function openChat(chat) {
  page.loaded = load(chat);
  return page.loaded;
}

async function load(chat) {
  const isOpen = chat === page.chat;
  Object.assign(page, { chat, turns: new Map(), running: new Set(), own: new Set(), oldest: null, sent: Promise.resolve() });
  page.newest = { message: 0, turn: 0, reply: 0 };
  page.visit += 1;
  // What arrives meanwhile is read with the chat.
  page.watch?.abort();
  const { visit } = page;
  // The fragment would show a chat twice in the browser's history.
  history.replaceState(null, "", `#${chat}`);
  localStorage.setItem(KEPT, chat);
  $("log").replaceChildren();
  if (!isOpen) showChoices({ persona_id: null, model: null });
  $("welcome").hidden = true;
  closeSidebar();
  // What is in the box stays there when another branch of the chat is shown.
  if (!isOpen) openBox(chat);
  showCurrent(chat);
  openMenuOf(chat, () => newChat());
  const response = await fetchSurely(`/page/chats/${chat}/messages`);
  const body = response.ok ? await response.json() : null;
  const reason = response.ok ? "" : await refusal(response);
  if (page.visit !== visit) return;
  if (!body) {
    $("log").append(faultLine(reason));
    return;
  }
  $("log").append(...pastNodes(body, keepTurn, { isNewest: true }));
  goOn(body);
  Object.assign(page.newest, { reply: body.newest_reply, answer: body.moment });
  page.branch = body.branch;
  showChoices(body.choices);
  for (const message of body.open) arrive(message, message.turn_id !== null);
  refresh();
  toEnd();
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
  const answer = await find(turn);
  if (!answer) return;
  for (const other of $("log").querySelectorAll(".match")) other.classList.remove("match");
  answer.classList.add("match");
}

// Reads the chat again when another branch of it is shown, and goes to a turn.
async function showAgain(turn) {
  await openChat(page.chat);
  // Meanwhile this window may have been told of the branch, and read it once more.
  await page.loaded;
  if (turn !== null) await find(turn);
}

async function find(turn) {
  closeSidebar();
  const look = () => $("log").querySelector(`[data-turn="${turn}"]`);
  await readBack(look);
  const answer = look();
  if (answer) toPlace(answer.previousElementSibling ?? answer);
  return answer;
}

function goOn(body) {
  page.oldest = body.has_more ? body.turns[0].turn_id : null;
  $("earlier").hidden = page.oldest === null;
}

// Reads the past until something is there, or as far as it goes.
async function readBack(isThere) {
  for (let read = null; !isThere() && page.oldest !== null && page.oldest !== read;) {
    read = page.oldest;
    await loadEarlier();
  }
}

function loadEarlier() {
  page.reading ??= readEarlier().finally(() => { page.reading = null; });
  return page.reading;
}

// Reads the page of the past before the oldest turn that is shown; what is in view stays where it is.
async function readEarlier() {
  const { chat, oldest } = page;
  if (oldest === null) return;
  try {
    const response = await fetch(`/page/chats/${chat}/messages?before=${oldest}`);
    if (!response.ok || page.chat !== chat || page.oldest !== oldest) return;
    const body = await response.json();
    const first = $("log").firstElementChild;
    const top = first?.getBoundingClientRect().top;
    $("log").prepend(...pastNodes(body, () => {}, { isNewest: false }));
    goOn(body);
    if (first) $("scroll").scrollTop += first.getBoundingClientRect().top - top;
    setTimeout(() => { if (isNear($("earlier"))) loadEarlier(); });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    offline(true);
  }
}

// On paper, or as a PDF, the chat is whole.
async function printChat() {
  $("chat-menu").hidePopover();
  const { visit } = page;
  await readBack(() => page.visit !== visit);
  if (page.visit === visit) print();
}

// Shows what other windows and scheduled jobs say while the page is open. A page that nobody sees keeps no connection, unless
// it is to tell of what arrives: a browser has few.
async function watchArrivals() {
  page.watch?.abort();
  if (document.hidden && !notifies()) return;
  const watch = new AbortController();
  page.watch = watch;
  const { chat } = page;
  // Which titles the list has.
  await listed;
  for (let failures = 0; !watch.signal.aborted; failures += 1) {
    const { message, turn, reply, answer } = page.newest;
    const elsewhere = notifies() ? `&after_answer=${answer}` : "";
    const after = `after=${message}&after_turn=${turn}&after_reply=${reply}&after_title=${newestTitle()}${elsewhere}`;
    const address = `/page/chats/${chat}/arrivals?${after}&branch=${page.branch}`;
    try {
      const response = await fetch(address, { signal: watch.signal });
      if (!response.ok && response.status < 500) return;
      for await (const event of response.ok ? events(response) : []) {
        if (watch.signal.aborted) return;
        failures = 0;
        if (event.name === "arrival") arrive(event);
        if (event.name === "reply") showReply(event);
        if (event.name === "title") nameChat(event);
        if (event.name === "answer") noteAnswer(event);
        // Another window has begun one, or chosen it.
        if (event.name === "branch" && event.branch !== page.branch) {
          openChat(chat);
          return;
        }
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
  touch(page.chat, message.content || message.files[0]?.filename);
  if (!isShown || !page.turns.has(message.turn_id)) append(personMessage(message.content, message.files));
  const address = `/page/chats/${page.chat}/messages/${message.message}/events`;
  follow(page.visit, address, null, page.turns.get(message.turn_id));
}

// In another chat, which the person finds at the top of the list.
function noteAnswer({ chat, content, moment }) {
  page.newest.answer = moment;
  if (chatOf(chat)) touch(chat);
  else loadChats();
  notify(chat, content);
}

function showReply(reply) {
  page.newest.reply = Math.max(page.newest.reply, reply.reply_id);
  if (page.own.has(reply.event_id)) return;
  append(...replyNodes(reply));
  refresh();
}

// --- sending ------------------------------------------------------------------------------------------------------------

async function send() {
  // What was said before comes first; a message sent meanwhile would be shown twice.
  await page.loaded;
  const message = takeMessage();
  if (!message) return;
  leave($("send"));
  say(message.content, message.files);
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
  toEnd();
  const body = form(chat, eventId, content, files, confirmation);
  noteUnsent(chat, eventId, confirmation ? "" : content);
  const post = () => fetch("/chat/messages", { method: "POST", body });
  const before = page.sent;
  page.sent = new Promise((resolve) => {
    const hasArrived = () => { noteArrived(chat, eventId); resolve(); };
    deliver(page.visit, eventId, view, { content, files, node: shown, post, hasArrived, before });
  });
}

async function deliver(visit, eventId, view, sent) {
  const address = `/chat/events?event_id=${eventId}`;
  page.running.add(address);
  refresh();
  await sent.before;
  let response = null;
  try {
    response = await sent.post();
  } catch (error) {
    // It may have arrived all the same: `follow` asks, and sends it again when it has not.
    if (!(error instanceof TypeError)) throw error;
  }
  await follow(visit, address, response, view, sent);
  noteEnd(eventId);
}

function form(chat, eventId, content, files, confirmation) {
  const fields = new FormData();
  fields.set("chat", chat);
  fields.set("event_id", eventId);
  fields.set("content", content);
  if (confirmation) fields.set("confirmation", String(confirmation));
  const choices = takeChoices();
  if (choices) fields.set("choices", choices);
  for (const file of files) fields.append("files", file, file.name);
  return fields;
}

const lastWords = () => [...$("log").querySelectorAll(".person .bubble")].at(-1)?.textContent ?? "";

async function stop() {
  leave($("stop"));
  $("stop").disabled = true;
  try {
    const body = JSON.stringify({ chat: page.chat });
    await fetch("/chat/stop", { method: "POST", body, headers: { "Content-Type": "application/json" } });
  } catch {
    offline(true);
  }
  $("stop").disabled = false;
}

// --- what the page looks like ---------------------------------------------------------------------------------------------

function suggestion(text) {
  const button = node("button", "", text);
  button.type = "button";
  return button;
}

// What this installation can do, and what its owner has to set up yet.
async function showState() {
  const response = await fetchSurely("/page/state");
  if (!response.ok) return;
  const state = await response.json();
  nameTools(state.tools);
  offerChoices(state);
  limit(state.max_bytes, state.max_files);
  if (state.suggestions.length) document.querySelector(".ideas").replaceChildren(...state.suggestions.map(suggestion));
  $("open-admin").hidden = !state.has_admin_pages;
  $("no-model").hidden = state.has_model;
  $("no-model-owner").hidden = !state.is_owner;
  $("set-up").hidden = !state.can_set_up;
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
onBranches(() => page.chat, showAgain);
$("scroll").addEventListener("scroll", () => { if (isNear($("earlier"))) loadEarlier(); }, { passive: true });
$("earlier").addEventListener("click", loadEarlier);
$("print").addEventListener("click", printChat);
$("open-memories").addEventListener("click", () => { closeSidebar(); openMemories(page.chat); });
$("new-chat").addEventListener("click", newChat);
onMatch(openAt);
$("welcome").addEventListener("click", (event) => {
  const idea = event.target.closest("button");
  if (!idea) return;
  leave(idea);
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

const named = () => (/^#[A-Za-z0-9_-]{1,64}$/.test(location.hash) ? location.hash.slice(1) : null);
addEventListener("hashchange", () => { if (named() && named() !== page.chat) openChat(named()); });
const listed = loadChats();
openChat(named() ?? localStorage.getItem(KEPT) ?? newId());
showState();
