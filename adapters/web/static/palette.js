// Ctrl+K: all that can be done on the page, and the chats, found by words and chosen by keys.

import { chatsNamed } from "./chats.js";
import { refreshMenu } from "./menu.js";
import { node } from "./nodes.js";
import { searchFor } from "./search.js";
import { fill, texts } from "./texts.js";

const $ = (id) => document.getElementById(id);
const CONTROLS = ["new-chat", "attach", "stop", "rename", "pin", "share", "export-md", "export-json", "print", "delete", "open-memories", "open-me", "open-admin"];

// More of them nobody reads, and thousands would take a while at each key.
const MOST = 50;

const palette = { entries: [], at: 0 };

const labelOf = (control) => control.getAttribute("aria-label") ?? control.textContent.trim();
const isOpen = (control) => !control.hidden && !control.disabled;

function controls() {
  return CONTROLS.map($).filter(isOpen).map((control) => ({ label: labelOf(control), act: () => control.click() }));
}

function chats() {
  return chatsNamed().map(({ chat, title }) => ({ label: title, facts: texts.chat, act: () => { location.hash = chat; } }));
}

function find(words) {
  const wanted = words.toLocaleLowerCase().split(/\s+/);
  const entries = [...controls(), ...chats()].filter(({ label }) => wanted.every((word) => label.toLocaleLowerCase().includes(word))).slice(0, MOST);
  return words ? [...entries, { label: fill(texts.search_for, { words }), act: () => searchFor(words) }] : entries;
}

function option({ label, facts }, index) {
  const item = node("li", "", node("span", "", label), ...(facts ? [node("span", "facts", facts)] : []));
  item.id = `palette-${index}`;
  item.setAttribute("role", "option");
  return item;
}

function list() {
  palette.entries = find($("palette-words").value.trim());
  $("palette-list").replaceChildren(...palette.entries.map(option));
  mark(0);
}

function mark(index) {
  palette.at = (index + palette.entries.length) % palette.entries.length;
  for (const item of $("palette-list").children) item.setAttribute("aria-selected", String(item.id === `palette-${palette.at}`));
  $("palette-words").setAttribute("aria-activedescendant", `palette-${palette.at}`);
  $(`palette-${palette.at}`).scrollIntoView({ block: "nearest" });
}

function choose(index) {
  $("palette").close();
  palette.entries[index].act();
}

document.addEventListener("keydown", (event) => {
  // A browser that fills in a form presses a key without a name.
  if (event.key?.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  if (document.querySelector("dialog[open]")) return;
  refreshMenu();
  $("palette-words").value = "";
  $("palette").showModal();
  list();
});
$("palette-words").addEventListener("input", list);
$("palette-words").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) mark(palette.at + step);
  else if (event.key === "Enter" && !event.isComposing) choose(palette.at);
  else return;
  event.preventDefault();
});
$("palette-list").addEventListener("click", (event) => {
  const item = event.target.closest("li");
  if (item) choose([...$("palette-list").children].indexOf(item));
});
