// What stands in the conversation: a person's message, a turn with its tool cards, a chat in the list.

import { againButton, arrows, choiceButton, editButton, goOnButton } from "./acts.js";
import { face, offered } from "./choices.js";
import { credentialForm } from "./credentials.js";
import { thumbs } from "./feedback.js";
import { GrowingText, codeBlock, copyButton, render } from "./markdown.js";
import { icon, node, pictureOf } from "./nodes.js";
import { fill, texts } from "./texts.js";

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

const TIME = new Intl.DateTimeFormat(texts.language, { dateStyle: "medium", timeStyle: "short" });

// A path such as /etc/hosts is none.
const COMMAND = /^\s*\/\s*[a-z][a-z_-]*(?:\s|$)/i;

// `canEdit`: a command is only given, and nothing stands in its place.
export function personMessage(content, files, { at, canEdit = true } = {}) {
  const attached = ATTACHED.exec(content);
  const shown = attached ? content.slice(0, attached.index) : content;
  const named = Array.from((attached?.[1] ?? "").matchAll(ATTACHED_LINE), (found) => ({ filename: found[1], size: found[2] }));
  // Files that are gone, and those that were forwarded, are only named in the text.
  const names = files?.length ? files : named;
  const message = node("article", "message person");
  message.setAttribute("aria-label", texts.you);
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
  const acts = shown.trim() ? [copyButton(() => shown), ...(canEdit && !COMMAND.test(shown) ? [editButton()] : [])] : [];
  message.append(node("div", "acts", time, ...acts));
  return message;
}

// What a call does while it runs, and what it has done, in words, by the names of tools.
const words = new Map();
// The cards that were made before the words were there.
const early = new Set();

export function nameTools(tools) {
  for (const [tool, sentences] of Object.entries(tools)) words.set(tool, sentences);
  for (const card of early) card.say();
  early.clear();
}

// Of a tool without words, as those of other servers, its name says what it does.
function plainWords(tool) {
  const [module, name] = tool.split(/\.(.*)/);
  const plain = name ? `${name.replaceAll("_", " ")} (${module})` : tool;
  return [fill(texts.using, { tool: plain }), fill(texts.used, { tool: plain })];
}

// Models choose any value. Text that turns the direction of what follows would change the sentence around it.
const plainText = (value) => (typeof value === "string" ? value : JSON.stringify(value)).slice(0, 400).replace(/[\s\u202a-\u202e\u2066-\u2069]+/g, " ");

// `{name}` stands for that argument; a part in square brackets is left out without it.
function fillIn(sentence, args) {
  const has = (part) => Array.from(part.matchAll(/{(\w+)}/g)).every(([, name]) => args[name] !== undefined && args[name] !== null && args[name] !== "");
  const whole = sentence.replace(/\[([^\]]*)\]/g, (_, part) => (has(part) ? part : ""));
  return whole.replace(/{(\w+)}/g, (_, name) => (has(`{${name}}`) ? plainText(args[name]).slice(0, 80) : "…"));
}

export class ToolCard {
  constructor(event) {
    this.args = event.args;
    this.tool = event.tool;
    this.isDone = false;
    this.state = node("span", "tool-state running");
    this.label = node("span", "unseen", texts.state_running);
    const preview = Object.values(event.args ?? {}).map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
    this.name = node("span", "tool-name");
    this.preview = node("span", "tool-preview", preview.join(", ").slice(0, 120));
    this.say();
    if (!words.size) early.add(this);
    const summary = node("summary", "", this.state, this.name, this.preview, this.label, icon("chevron"));
    this.node = node("details", "tool", summary, node("div", "part tool-id", event.tool), node("div", "part", texts.arguments), codeBlock(pretty(event.args)));
  }

  ask(event) {
    this.sentences = [fill(texts.asking, { agent: event.agent }), fill(texts.asked, { agent: event.agent })];
    this.preview.textContent = String(event.task ?? "").slice(0, 120);
    this.say();
  }

  say() {
    const sentences = this.sentences ?? words.get(this.tool) ?? plainWords(this.tool);
    const sentence = fillIn(sentences[this.isDone ? 1 : 0], this.args ?? {});
    this.name.textContent = this.isDone || !this.state.classList.contains("running") ? sentence : fill(texts.going_on, { sentence });
    // What stands in the sentence need not stand behind it.
    this.preview.hidden = !this.sentences && /{\w+}/.test(sentences[0]);
  }

  finish(event) {
    if (event.needs_approval) this.mark("fault", "waiting");
    else this.mark(event.error ? "fault" : "check", event.error ? "failed" : "done");
    this.node.append(node("div", "part", texts.result), codeBlock(pretty(event.result)));
  }

  mark(name, label) {
    this.state.className = `tool-state ${label}`;
    this.state.replaceChildren(icon(name));
    this.label.textContent = texts[`state_${label}`];
    this.isDone = label === "done";
    this.say();
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
  list.setAttribute("aria-label", texts.sources);
  return list;
}

function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value ?? null, null, 2);
}

export class TurnView {
  constructor() {
    this.body = node("div", "body");
    this.dots = node("div", "dots", node("i"), node("i"), node("i"));
    this.dots.setAttribute("aria-label", texts.working);
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

  // Of a turn that is read back the transcript says who has answered it.
  async turn_started() {
    await offered;
    if (!this.persona) this.show(face());
  }

  show(persona) {
    if (!persona) return;
    this.persona = persona;
    this.node.setAttribute("aria-label", persona.name);
    if (!persona.picture) return;
    const image = node("img", "face");
    image.src = pictureOf(persona.picture);
    image.alt = "";
    image.title = persona.name;
    this.node.classList.add("has-face");
    this.node.prepend(image);
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
      choices.setAttribute("aria-label", texts.answers);
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
    const facts = [event.model, used ? fill(texts.tokens, { count: used.toLocaleString(texts.language) }) : null].filter(Boolean);
    const acts = [];
    if (facts.length) acts.push(node("span", "facts", facts.join(" · ")));
    if (this.text.trim()) acts.push(copyButton(() => this.text));
    if (this.node.dataset.turn && (event.error === "stopped" || (event.finished === false && !event.error))) acts.push(goOnButton());
    // Of a budget that is used up the answer has buttons of its own; a command is given once.
    if (this.node.dataset.turn && event.error !== "budget_exhausted") acts.push(againButton(event.error ? texts.ask_again : texts.try_again));
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
