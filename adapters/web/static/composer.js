// The box in which a message is written: its text, which is kept for each chat, and the files that go with it.

import { chip, icon, node, sizeText } from "./view.js";

const $ = (id) => document.getElementById(id);
const DRAFT = "parley.draft.";
const MOST_DRAFTS = 50;

const box = { chat: null, files: [] };

export function openBox(chat) {
  box.chat = chat;
  box.files = [];
  $("text").value = localStorage.getItem(DRAFT + chat) ?? "";
  fit();
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

// Puts a message back that could not be sent, unless the next one is being written already.
export function putBack(content, files) {
  if (!$("text").value.trim()) write(content);
  if (!box.files.length) box.files = [...files];
  drawFiles();
}

export function write(text) {
  $("text").value = text;
  keepDraft();
  fit();
}

export function pick(files) {
  box.files = [...box.files, ...files];
  drawFiles();
  $("text").focus();
}

function keepDraft() {
  const text = $("text").value;
  const drafts = Object.keys(localStorage).filter((key) => key.startsWith(DRAFT));
  if (!text) localStorage.removeItem(DRAFT + box.chat);
  else if (drafts.length < MOST_DRAFTS || localStorage.getItem(DRAFT + box.chat) !== null) localStorage.setItem(DRAFT + box.chat, text);
}

function fit() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight, 240)}px`;
  drawFiles();
}

function drawFiles() {
  $("picked").replaceChildren(...box.files.map(pickedEntry));
  $("send").disabled = !$("text").value.trim() && !box.files.length;
}

function pickedEntry(file, position) {
  const remove = node("button", "remove", icon("close"));
  remove.type = "button";
  remove.setAttribute("aria-label", `Remove ${file.name}`);
  remove.addEventListener("click", () => {
    box.files = box.files.filter((_, index) => index !== position);
    drawFiles();
    $("text").focus();
  });
  return node("li", "", chip(file.name, sizeText(file.size), remove));
}

const carriesFiles = (event) => Array.from(event.dataTransfer?.types ?? []).includes("Files");

$("text").addEventListener("input", () => { keepDraft(); fit(); });
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
