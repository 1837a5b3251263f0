// The person's memories: searched, forgotten, paused; and everything that is kept, exported or erased. Each button gives
// the command that the person could also type.

import { render } from "./markdown.js";
import { refusal } from "./stream.js";
import { faultLine, node } from "./nodes.js";
import { fill, texts } from "./texts.js";
import { download } from "./view.js";

const $ = (id) => document.getElementById(id);
const SOURCES = { turn: texts.memory_said, fact: texts.memory_noticed, remembered: texts.memory_asked };
const SCOPES = {
  private: texts.scope_private,
  server: texts.scope_server,
  conversation: texts.scope_channel,
  everywhere: texts.scope_everywhere,
};
const DAY = new Intl.DateTimeFormat(texts.language, { dateStyle: "medium" });

const list = { shown: 0, isPaused: false, chat: "" };

export async function openMemories(chat) {
  list.chat = chat;
  $("memory-search").value = "";
  $("memory-reply").replaceChildren();
  $("memories").showModal();
  await load();
}

async function load(isMore = false) {
  const search = $("memory-search").value.trim();
  const skip = isMore ? list.shown : 0;
  const response = await ask(`/chat/memories?search=${encodeURIComponent(search)}&skip=${skip}`);
  if (!response) return;
  const found = await response.json();
  // Meanwhile something else is searched for.
  if (search !== $("memory-search").value.trim()) return;
  list.shown = skip + found.memories.length;
  list.isPaused = found.is_paused;
  const entries = found.memories.map(entry);
  if (isMore) $("memory-list").append(...entries);
  else $("memory-list").replaceChildren(...entries);
  $("memory-none").hidden = list.shown > 0;
  $("memory-none").textContent = search ? texts.no_such_memory : texts.no_memory;
  $("memory-more").hidden = !found.has_more;
  $("memory-about").hidden = !search || !list.shown;
  $("memory-about").textContent = fill(texts.forget_about, { words: search });
  $("memory-pause").textContent = list.isPaused ? texts.remember_again : texts.pause_remembering;
}

function entry(memory) {
  const who = memory.is_from_bot ? texts.memory_answer : SOURCES[memory.source] ?? memory.source;
  const facts = [DAY.format(new Date(memory.said_at)), who, SCOPES[memory.scope] ?? memory.scope];
  const forget = node("button", "", texts.forget);
  forget.type = "button";
  forget.setAttribute("aria-label", fill(texts.forget_this, { memory: memory.content.slice(0, 80) }));
  forget.addEventListener("click", () => give(`/memory forget ${memory.id}`));
  return node("li", "", node("div", "memory-text", memory.content), node("div", "memory-facts", facts.join(" · ")), forget);
}

async function give(command) {
  const place = [...$("memory-list").children].findIndex((item) => item.contains(document.activeElement));
  const response = await ask("/chat/commands", {
    method: "POST",
    body: JSON.stringify({ chat: list.chat, command }),
    headers: { "Content-Type": "application/json" },
  });
  if (!response) return;
  const reply = await response.json();
  const buttons = reply.commands.map((each) => {
    const button = node("button", "choice", each.label);
    button.type = "button";
    button.addEventListener("click", () => give(each.line));
    return button;
  });
  // Where there are buttons, nobody has to write a command.
  const text = buttons.length ? reply.content.replace(/\n\nTo do it, write .*$/, "") : reply.content;
  const shown = [node("div", "text", render(text)), ...reply.files.map(download)];
  $("memory-reply").replaceChildren(...shown, ...(buttons.length ? [node("div", "choices", ...buttons)] : []));
  $("memory-reply").scrollIntoView({ block: "nearest" });
  buttons[0]?.focus();
  if (reply.is_signed_out) showNone(texts.no_memory_any_more);
  else if (!buttons.length) await load();
  // What was pressed may be gone: the memory that stands in its place is next.
  if (document.activeElement === document.body) ($("memory-list").children[place]?.querySelector("button") ?? $("memory-search")).focus();
}

function showNone(text) {
  $("memory-list").replaceChildren();
  $("memory-none").hidden = false;
  $("memory-none").textContent = text;
  $("memory-more").hidden = true;
  $("memory-about").hidden = true;
}

async function ask(address, options) {
  try {
    const response = await fetch(address, options);
    if (response.ok) return response;
    $("memory-reply").replaceChildren(faultLine(await refusal(response)));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    $("memory-reply").replaceChildren(faultLine(texts.unreachable));
  }
  return null;
}

$("memory-find").addEventListener("submit", (event) => { event.preventDefault(); load(); });
$("memory-search").addEventListener("search", () => load());
$("memory-more").addEventListener("click", () => load(true));
$("memory-about").addEventListener("click", () => give(`/memory forget about ${$("memory-search").value.trim()}`));
$("memory-all").addEventListener("click", () => give("/memory forget all"));
$("memory-pause").addEventListener("click", () => give(`/memory ${list.isPaused ? "resume" : "pause"} everywhere`));
$("memory-export").addEventListener("click", () => give("/export"));
$("memory-erase").addEventListener("click", () => give("/erase me"));
$("memory-close").addEventListener("click", () => $("memories").close());
