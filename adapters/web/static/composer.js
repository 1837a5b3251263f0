// The box in which a message is written: its text, which is kept for each chat, and the files that go with it.

import { icon, node } from "./nodes.js";
import { fill, texts } from "./texts.js";
import { SHOWN_IMAGES, chip, sizeText } from "./view.js";

const $ = (id) => document.getElementById(id);
const DRAFT = "parley.draft.";
const UNSENT = "parley.unsent.";
const OWNER = "parley.person";

// What another person has left in this browser is nobody's concern.
const { person } = document.documentElement.dataset;
if (localStorage.getItem(OWNER) !== person) {
  for (const key of Object.keys(localStorage).filter((name) => name.startsWith("parley."))) localStorage.removeItem(key);
  localStorage.setItem(OWNER, person);
}

// What may be sent with one message; the server says how much.
const limits = { bytes: Infinity, files: 20 };
const box = { chat: null, files: [] };
// The files that were picked in other chats, as long as the page is open.
const left = new Map();
const pictures = new Map();
// The messages that this page is trying to send.
const underway = new Set();

export function limit(bytes, files) {
  Object.assign(limits, { bytes, files });
}

export function openBox(chat) {
  if (box.files.length) left.set(box.chat, box.files);
  Object.assign(box, { chat, files: left.get(chat) ?? [] });
  left.delete(chat);
  // What the server never got, because the page or the chat was left meanwhile, goes back into the box.
  const unsent = Object.entries(readUnsent(chat)).filter(([eventId]) => !underway.has(eventId));
  for (const [eventId] of unsent) noteArrived(chat, eventId);
  write([...unsent.map(([, content]) => content), localStorage.getItem(DRAFT + chat) ?? ""].filter(Boolean).join("\n\n"));
}

const readUnsent = (chat) => JSON.parse(localStorage.getItem(UNSENT + chat) ?? "{}");

function writeUnsent(chat, messages) {
  store(UNSENT + chat, Object.keys(messages).length ? JSON.stringify(messages) : "");
}

// Keeps the text of a message until it has arrived.
export function noteUnsent(chat, eventId, content) {
  underway.add(eventId);
  if (content) writeUnsent(chat, { ...readUnsent(chat), [eventId]: content });
}

export function noteArrived(chat, eventId) {
  const { [eventId]: _, ...others } = readUnsent(chat);
  writeUnsent(chat, others);
}

export function noteEnd(eventId) {
  underway.delete(eventId);
}

// Empties the box, and returns what was in it; null when that was nothing.
export function takeMessage() {
  const content = $("text").value.trim();
  const files = box.files;
  if (!content && !files.length) return null;
  box.files = [];
  write("");
  return { content, files };
}

// Puts a message back that could not be sent, before what is being written already.
export function putBack(content, files) {
  box.files = [...files, ...box.files];
  write([content, $("text").value].filter((text) => text.trim()).join("\n\n"));
}

export function write(text) {
  $("text").value = text;
  keepDraft();
  fit();
}

// What is too big is refused here, before it is sent; everything else stays in the box.
export function pick(files) {
  const refused = [];
  for (const file of files) {
    if (box.files.length >= limits.files) {
      // Of a whole folder a sentence each would fill the page.
      refused.push(fill(texts.too_many, { name: file.name, count: limits.files }));
      break;
    }
    const size = box.files.reduce((sum, other) => sum + other.size, file.size);
    if (size > limits.bytes) refused.push(fill(texts.too_big, { name: file.name, size: sizeText(limits.bytes) }));
    else box.files = [...box.files, file];
  }
  drawFiles();
  $("box-note").textContent = refused.join(" ");
  $("box-note").hidden = !refused.length;
  $("text").focus();
}

// A browser keeps a few megabytes; what is longer is in the box alone.
function store(key, text) {
  try {
    if (text) localStorage.setItem(key, text);
    else localStorage.removeItem(key);
  } catch (error) {
    if (error.name !== "QuotaExceededError") throw error;
    localStorage.removeItem(key);
  }
}

const keepDraft = () => store(DRAFT + box.chat, $("text").value);

export function dropDraft(chat) {
  left.delete(chat);
  localStorage.removeItem(DRAFT + chat);
  localStorage.removeItem(UNSENT + chat);
}

function fit() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight, 240)}px`;
  drawFiles();
}

function drawFiles() {
  for (const [file, address] of pictures) {
    if (!box.files.includes(file)) {
      URL.revokeObjectURL(address);
      pictures.delete(file);
    }
  }
  $("picked").replaceChildren(...box.files.map(pickedEntry));
  $("send").disabled = !$("text").value.trim() && !box.files.length;
}

function pickedEntry(file, position) {
  const remove = node("button", "remove", icon("close"));
  remove.type = "button";
  remove.setAttribute("aria-label", fill(texts.remove_file, { name: file.name }));
  remove.addEventListener("click", () => {
    box.files = box.files.filter((_, index) => index !== position);
    drawFiles();
    $("text").focus();
  });
  const shown = chip(file.name, sizeText(file.size), remove);
  if (SHOWN_IMAGES.test(file.type)) shown.firstChild.replaceWith(picture(file));
  return node("li", "", shown);
}

function picture(file) {
  if (!pictures.has(file)) pictures.set(file, URL.createObjectURL(file));
  const image = node("img", "thumbnail");
  image.src = pictures.get(file);
  image.alt = "";
  image.addEventListener("error", () => image.replaceWith(icon("file")));
  return image;
}

const carriesFiles = (event) => Array.from(event.dataTransfer?.types ?? []).includes("Files");

$("text").addEventListener("input", () => { $("box-note").hidden = true; keepDraft(); fit(); });
$("text").addEventListener("paste", (event) => {
  if (!event.clipboardData.files.length) return;
  event.preventDefault();
  pick(event.clipboardData.files);
});
$("attach").addEventListener("click", () => $("files").click());
$("files").addEventListener("change", () => { pick($("files").files); $("files").value = ""; });
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
