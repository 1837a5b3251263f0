// What stands in the conversation: a person's message, a turn with its tool cards, a chat in the list.

import { againButton, arrows, choiceButton, editButton, goOnButton } from "./acts.js";
import { credentialForm } from "./credentials.js";
import { thumbs } from "./feedback.js";
import { GrowingText, codeBlock, copyButton, render } from "./markdown.js";
import { icon, node } from "./nodes.js";

export const SHOWN_IMAGES = /^image\/(png|jpeg|gif|webp)$/;
// Looks at each row of line breaks once: a text may have a hundred thousand.
const ATTACHED = /(?<!\n)\n*\[Attached files:\]\n([\s\S]*)$/;
const ATTACHED_LINE = /^- (.+) \(file_id \d+, ([^()]*), [^,()]*\)$/gm;
const SLOWEST_FRAME = 400;
const PAGE = /^https?:\/\/[^\s/]+/i;

export function sizeText(bytes) {
  if (bytes === null || bytes === undefined) return "";
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

export function chip(filename, size, ...more) {
  return node("span", "chip", icon("file"), node("span", "chip-name", filename), node("span", "chip-size", size), ...more);
}

export function download(file) {
  // Only our own address: what stands before the path is how others reach us, which may differ from how we were reached.
  const address = new URL(file.url, location.href);
  const link = node("a", "download");
  link.href = address.pathname + address.search;
  link.download = file.filename;
  if (SHOWN_IMAGES.test(file.mime_type)) {
    const image = node("img");
    image.src = link.href;
    image.alt = file.filename;
    image.loading = "lazy";
    link.append(image);
  }
  link.append(chip(file.filename, sizeText(file.size_bytes), icon("down")));
  return link;
}

const TIME = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });

// `canEdit`: a command is only given, and nothing stands in its place.
export function personMessage(content, files, { at, canEdit = true } = {}) {
  const attached = ATTACHED.exec(content);
  const shown = attached ? content.slice(0, attached.index) : content;
  const named = Array.from((attached?.[1] ?? "").matchAll(ATTACHED_LINE), (found) => ({ filename: found[1], size: found[2] }));
  // Files that are gone, and those that were forwarded, are only named in the text.
  const names = files?.length ? files : named;
  const message = node("article", "message person");
  message.setAttribute("aria-label", "You");
  if (shown.trim()) {
    const bubble = node("div", "bubble", shown);
    bubble.dir = "auto";
    message.append(bubble);
  }
  if (names.length) {
    const chips = names.map((file) => (file.url ? download(file) : chip(file.filename, file.size ?? sizeText(file.size_bytes))));
    message.append(node("div", "chips", ...chips));
  }
  const time = node("time", "facts", TIME.format(at ? new Date(at) : new Date()));
  const acts = shown.trim() ? [copyButton(() => shown), ...(canEdit && !shown.startsWith("/") ? [editButton()] : [])] : [];
  message.append(node("div", "acts", time, ...acts));
  return message;
}

// What tools do, in words, by their names.
const words = new Map();
const nameOf = (tool) => words.get(tool) || tool;

export function nameTools(tools) {
  for (const [tool, title] of Object.entries(tools)) words.set(tool, title);
  for (const name of document.querySelectorAll(".tool-name[data-tool]")) name.textContent = nameOf(name.dataset.tool);
}

export class ToolCard {
  constructor(event) {
    this.args = event.args;
    this.state = node("span", "tool-state running");
    this.label = node("span", "unseen", "running");
    const preview = Object.values(event.args ?? {}).map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
    this.name = node("span", "tool-name", nameOf(event.tool));
    this.name.dataset.tool = event.tool;
    this.preview = node("span", "tool-preview", preview.join(", ").slice(0, 120));
    const summary = node("summary", "", this.state, this.name, this.preview, this.label, icon("chevron"));
    this.node = node("details", "tool", summary, node("div", "part tool-id", event.tool), node("div", "part", "Arguments"), codeBlock(pretty(event.args)));
  }

  ask(event) {
    delete this.name.dataset.tool;
    this.name.textContent = `Ask ${event.agent}`;
    this.preview.textContent = String(event.task ?? "").slice(0, 120);
  }

  finish(event) {
    if (event.needs_approval) this.mark("fault", "waiting");
    else this.mark(event.error ? "fault" : "check", event.error ? "failed" : "done");
    this.node.append(node("div", "part", "Result"), codeBlock(pretty(event.result)));
  }

  mark(name, label) {
    this.state.className = `tool-state ${label}`;
    this.state.replaceChildren(icon(name));
    this.label.textContent = label;
  }

  leave() {
    if (this.state.classList.contains("running")) this.mark("fault", "unknown");
  }
}

function sourceList(sources) {
  const list = node("ol", "sources", ...Array.from(sources, ([address, title]) => {
    const link = node("a", "", typeof title === "string" && title.trim() ? title.trim().slice(0, 120) : address.split("/")[2]);
    link.href = address;
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
    link.title = address;
    return node("li", "", link);
  }));
  list.setAttribute("aria-label", "Web pages that were read");
  return list;
}

function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value ?? null, null, 2);
}

export class TurnView {
  constructor() {
    this.body = node("div", "body");
    this.dots = node("div", "dots", node("i"), node("i"), node("i"));
    this.dots.setAttribute("aria-label", "Working");
    this.node = node("article", "message agent", this.body, this.dots);
    this.node.setAttribute("aria-label", "Parley");
    this.node.setAttribute("aria-busy", "true");
    this.seen = new Set();
    this.cards = new Map();
    // The titles of web pages that were read, by their addresses.
    this.sources = new Map();
    this.text = "";
    this.block = null;
    this.drawAfter = 0;
  }

  // Events may come twice: two messages of one turn, or a connection that was opened again.
  take(event) {
    const key = `${event.name}:${event.seq}`;
    if (this.isDone || this.seen.has(key)) return;
    this.seen.add(key);
    this[event.name]?.(event);
  }

  text_delta(event) {
    if (event.reset) this.text = "";
    this.text += event.text;
    this.drawSoon();
  }

  thinking(event) {
    if (this.lastThought !== event.text && this.text !== event.text) this.think(event.text);
  }

  tool_call(event) {
    if (this.text.trim()) this.think(this.text);
    this.startBlock();
    const card = new ToolCard(event);
    this.cards.set(event.id, card);
    this.body.append(card.node);
  }

  delegation_request(event) {
    this.cards.get(event.id)?.ask(event);
  }

  tool_result(event) {
    const card = this.cards.get(event.id);
    card?.finish(event);
    const address = card?.args?.url;
    if (!event.error && typeof address === "string" && PAGE.test(address)) this.sources.set(address, event.result?.title);
  }

  message(event) {
    this.text = event.content;
    this.draw(true);
    if (this.sources.size) this.body.append(sourceList(this.sources));
    if (event.files?.length) this.body.append(node("div", "files", ...event.files.map(download)));
    if (event.credential) this.body.append(credentialForm(event.credential));
    if (event.choices?.length || event.commands?.length) {
      const buttons = [
        ...(event.choices ?? []).map((text) => choiceButton(text, event.confirmation?.id)),
        ...(event.commands ?? []).map((each) => choiceButton(each.line, undefined, each.label)),
      ];
      const choices = node("div", "choices", ...buttons);
      choices.setAttribute("role", "group");
      choices.setAttribute("aria-label", "Answers");
      this.body.append(choices);
    }
  }

  turn_complete(event) {
    this.isDone = true;
    this.node.setAttribute("aria-busy", "false");
    this.dots.remove();
    for (const card of this.cards.values()) card.leave();
    // Stopping is no failure.
    if (event.error) this.node.classList.add(event.error === "stopped" ? "stopped" : "refused");
    const used = (event.usage?.input_tokens ?? 0) + (event.usage?.output_tokens ?? 0);
    const facts = [event.model, used ? `${used.toLocaleString("en")} tokens` : null].filter(Boolean);
    const acts = [];
    if (facts.length) acts.push(node("span", "facts", facts.join(" · ")));
    if (this.text.trim()) acts.push(copyButton(() => this.text));
    if (this.node.dataset.turn && (event.error === "stopped" || (event.finished === false && !event.error))) acts.push(goOnButton());
    // Of a budget that is used up the answer has buttons of its own; a command is given once.
    if (this.node.dataset.turn && event.error !== "budget_exhausted") acts.push(againButton(event.error ? "Ask again" : "Try again"));
    if (acts.length) this.body.append(node("div", "acts", ...acts));
    if (this.node.dataset.turn && this.text.trim() && !event.error) this.body.lastChild.append(...thumbs(this.node, this.feedback));
    if (this.branch) this.showVersions(this.branch);
  }

  showVersions(branch) {
    if (!this.body.querySelector(".arrows")) this.body.querySelector(":scope > .acts")?.append(arrows(branch));
  }

  think(text) {
    this.lastThought = text;
    this.block?.node.remove();
    this.body.append(node("div", "thought", render(text)));
    this.startBlock();
  }

  startBlock() {
    this.text = "";
    this.block = null;
  }

  drawSoon() {
    if (this.frame) return;
    const wait = Math.max(0, this.drawAfter - performance.now());
    this.frame = setTimeout(() => requestAnimationFrame(() => { if (this.frame) this.draw(); }), wait);
  }

  draw(isWhole = false) {
    clearTimeout(this.frame);
    this.frame = null;
    const begun = performance.now();
    if (!this.block) {
      this.block = new GrowingText();
      this.body.append(this.block.node);
    }
    this.block.draw(this.text, isWhole);
    // A long block takes longer to draw: draw it less often, so that typing stays fluent.
    const spent = performance.now() - begun;
    this.drawAfter = performance.now() + Math.min(SLOWEST_FRAME, 4 * spent);
  }
}
