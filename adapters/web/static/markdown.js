// Markdown to DOM nodes: markdown-it writes HTML without any of the author's, DOMPurify lets through what is listed here. No
// image is loaded but our own files, and a link leads to http, to https or to one of our files.

import { addMaths, typeset } from "./maths.js";
import { texts } from "./texts.js";
import DOMPurify from "./vendor/dompurify.js";
import footnote from "./vendor/markdown-it-footnote.js";
import MarkdownIt from "./vendor/markdown-it.js";

const OUR_FILE = /^\/files\/\d+\?[\w=&.-]+$/;
const WEB = /^https?:\/\//i;
const ALLOWED = {
  ALLOWED_TAGS: [
    "a", "blockquote", "br", "code", "em", "h2", "h3", "h4", "h5", "h6", "hr", "img", "input", "li", "ol", "p", "pre", "s", "section",
    "strong", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["alt", "checked", "class", "disabled", "href", "loading", "rel", "src", "start", "target", "type"],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|\/files\/)/i,
  ADD_URI_SAFE_ATTR: ["checked", "disabled", "loading", "rel", "start", "target", "type"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const COLOURS = { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true };
const DIRECTED = "p, h2, h3, h4, h5, h6, li, blockquote, th, td";
const TASK = /^\[([ xX])\] /;
// What stands elsewhere may change what was drawn before.
const REFERS_BACK = /\[\^|^ {0,3}\[[^\]]+\]:/m;
const MOST_COLOURED = 40_000;
// Some grammars take time that grows with the square of a line, or of a word.
const LONG_LINE = /[^\n]{400}/;

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: true }).use(footnote).use(addMaths);
const { rules } = markdown.renderer;

markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
for (const schema of ["ftp:", "mailto:", "//"]) markdown.linkify.add(schema, null);
markdown.validateLink = (address) => WEB.test(address) || ourFile(address) !== null;

// A file of ours, as a path; null for any other address. With `isAnyHost`, which others reach us by may differ from how this
// page was reached: whatever the host is, nobody but this server is asked for the path.
function ourFile(address, isAnyHost = false) {
  let url;
  try { url = new URL(address, location.href); } catch { return null; }
  const path = url.pathname + url.search;
  return (isAnyHost || url.origin === location.origin) && OUR_FILE.test(path) ? path : null;
}

markdown.core.ruler.push("page", ({ tokens, env }) => {
  tokens.forEach((token, at) => {
    if (token.type === "heading_open") token.tag = tokens[at + 2].tag = levelOf(Number(token.tag[1]), env.outline ?? []);
    const style = token.attrGet("style");
    if (style) {
      token.attrs = token.attrs.filter(([name]) => name !== "style");
      token.attrSet("class", style.replace("text-align:", "align-"));
    }
    if (token.type === "inline" && tokens[at - 1]?.type === "paragraph_open" && tokens[at - 2]?.type === "list_item_open") task(token, tokens[at - 2]);
  });
});

// The page's title is the first level, and no level may be left out: `outline` has the levels of the headings around.
function levelOf(level, outline) {
  while (outline.length && outline.at(-1) >= level) outline.pop();
  outline.push(level);
  return `h${Math.min(6, outline.length + 1)}`;
}

function task(inline, item) {
  const first = inline.children[0];
  const mark = first?.type === "text" && TASK.exec(first.content);
  if (!mark) return;
  first.content = first.content.slice(mark[0].length);
  item.attrSet("class", mark[1] === " " ? "task" : "task done");
}

rules.list_item_open = (tokens, at, options, env, self) => {
  const classes = tokens[at].attrGet("class") ?? "";
  const box = classes.startsWith("task") ? `<input type="checkbox" disabled${classes.endsWith("done") ? " checked" : ""}>` : "";
  return self.renderToken(tokens, at, options) + box;
};
rules.link_open = (tokens, at, options, env, self) => {
  const path = ourFile(tokens[at].attrGet("href"));
  if (path) tokens[at].attrSet("href", path);
  tokens[at].attrSet("target", "_blank");
  tokens[at].attrSet("rel", "noopener noreferrer nofollow");
  return self.renderToken(tokens, at, options);
};
rules.image = (tokens, at, options, env, self) => {
  const escape = markdown.utils.escapeHtml;
  const address = tokens[at].attrGet("src");
  const label = self.renderInlineAsText(tokens[at].children, options, env);
  const path = ourFile(address, true);
  if (path) return `<img src="${escape(path)}" alt="${escape(label)}" loading="lazy">`;
  return `<a href="${escape(address)}" target="_blank" rel="noopener noreferrer nofollow">${escape(label || address)}</a>`;
};
// Without links to and fro: an address behind # opens a chat.
rules.footnote_ref = (tokens, at) => `<sup class="note-mark">${Number(tokens[at].meta.id) + 1}</sup>`;
rules.footnote_anchor = () => "";
rules.footnote_block_open = () => '<section class="notes"><ol>';
rules.footnote_open = () => "<li>";

export function render(text) {
  return build(text.replace(/\r\n?/g, "\n"), []);
}

function build(text, outline, isGrowing = false) {
  const fragment = DOMPurify.sanitize(markdown.render(text, { outline }), ALLOWED);
  // Now that all of it is there: browsers look for the direction again with each child that comes.
  for (const block of fragment.querySelectorAll(DIRECTED)) block.dir = "auto";
  for (const code of fragment.querySelectorAll("pre > code")) {
    const language = /^language-([\w+#.-]{1,30})/.exec(code.className)?.[1] ?? "";
    code.parentNode.replaceWith(codeBlock(code.textContent.replace(/\n$/, ""), isGrowing ? "" : language, language));
  }
  if (!isGrowing) for (const code of fragment.querySelectorAll("code.maths")) typeset(code);
  for (const table of fragment.querySelectorAll("table")) {
    const frame = element("div", "table");
    // It may be wider than the page: keys have to reach it.
    frame.tabIndex = 0;
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const box of fragment.querySelectorAll("input")) box.setAttribute("aria-label", box.checked ? texts.task_done : texts.task_open);
  return fragment;
}

// A text that grows: only its last block is drawn again.
export class GrowingText {
  constructor() {
    this.node = element("div", "text");
    this.settled = "";
    this.outline = [];
    this.last = [];
  }

  draw(text, isWhole = false) {
    const whole = text.replace(/\r\n?/g, "\n");
    if (!whole.startsWith(this.settled) || (isWhole && REFERS_BACK.test(whole))) {
      this.node.replaceChildren();
      this.settled = "";
      this.outline = [];
      this.last = [];
    }
    const rest = whole.slice(this.settled.length);
    const cut = isWhole ? 0 : lastBlock(rest);
    for (const node of this.last) node.remove();
    if (cut) {
      this.node.append(build(rest.slice(0, cut), this.outline));
      this.settled += rest.slice(0, cut);
    }
    const grown = build(rest.slice(cut), [...this.outline], !isWhole);
    this.last = [...grown.childNodes];
    this.node.append(grown);
  }
}

function lastBlock(text) {
  const lines = markdown.parse(text, {}).filter((token) => token.level === 0 && token.map).map((token) => token.map[0]);
  const line = lines.length > 1 ? Math.max(...lines) : 0;
  let at = 0;
  for (let passed = 0; passed < line; passed += 1) at = text.indexOf("\n", at) + 1;
  return at;
}

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function copyButton(text, label = texts.copy) {
  const button = element("button", "", label);
  button.type = "button";
  button.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text());
    button.textContent = texts.copied;
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}

export function codeBlock(text, language = "", shown = language) {
  const code = element("code", "", text);
  const frame = element("pre", "", code);
  frame.tabIndex = 0;
  if (language && text.length <= MOST_COLOURED && !LONG_LINE.test(text)) colour(code, text, language);
  return element("div", "code", element("div", "code-head", element("span", "", shown), copyButton(() => text)), frame);
}

// Loaded with the first block of code whose language is named.
let highlighter = null;
let loading = null;

function colour(code, text, language) {
  if (!highlighter) {
    loading ??= import("./vendor/highlight.js").then((library) => { highlighter = library.default; }, () => { loading = null; });
    loading.then(() => { if (highlighter) colour(code, text, language); });
    return;
  }
  if (!highlighter.getLanguage(language)) return;
  const { value } = highlighter.highlight(text, { language, ignoreIllegals: true });
  code.replaceChildren(DOMPurify.sanitize(value, COLOURS));
}
