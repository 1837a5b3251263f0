// Markdown to DOM nodes. Text of a model or a person only ever becomes text nodes: nothing is parsed as HTML, no image is
// loaded, and a link leads to http or https or stays text.

// Bounds keep hostile text from costing more than its length.
const MAX_SPAN = 4000;
const MAX_DEPTH = 6;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,30})[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const LINK = /!?\[([^\[\]\n]{0,500})\]\(\s*<?([^\s<>()]{1,2000}(?:\([^\s<>()]{0,200}\)[^\s<>()]{0,500})?)>?(?:\s+"[^"\n]{0,300}")?\s*\)/y;
const BARE_LINK = /https?:\/\/[^\s<>"'`]{1,2000}/y;
const ESCAPE = /\\([\\`*_{}[\]()#+.!|~>-])/y;
const SPANS = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];

export function render(text) {
  const fragment = document.createDocumentFragment();
  blocks(text.replace(/\r\n?/g, "\n").split("\n"), fragment, 0);
  return fragment;
}

function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

function blocks(lines, parent, depth) {
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) { at += 1; continue; }
    const block = fenced(lines, at) ?? heading(line, at) ?? rule(line, at) ?? (depth < MAX_DEPTH
      ? quote(lines, at, depth) ?? list(lines, at, depth) ?? table(lines, at) : null) ?? paragraph(lines, at, depth);
    parent.append(block.node);
    at = block.next;
  }
}

function fenced(lines, at) {
  const open = FENCE.exec(lines[at]);
  if (!open) return null;
  const close = new RegExp(`^ {0,3}${open[1][0]}{${open[1].length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end])) end += 1;
  return { node: codeBlock(lines.slice(at + 1, end).join("\n"), open[2]), next: end + 1 };
}

export function codeBlock(text, language = "") {
  const copy = element("button", "Copy");
  copy.type = "button";
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  const head = element("div", element("span", language), copy);
  head.className = "code-head";
  const block = element("div", head, element("pre", element("code", text)));
  block.className = "code";
  return block;
}

function heading(line, at) {
  const found = HEADING.exec(line);
  // The page itself has the first two levels.
  return found && { node: inlined(element(`h${Math.min(6, found[1].length + 2)}`), found[2]), next: at + 1 };
}

function rule(line, at) {
  return RULE.test(line) ? { node: element("hr"), next: at + 1 } : null;
}

function quote(lines, at, depth) {
  if (!QUOTE.test(lines[at])) return null;
  const inner = [];
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) inner.push(QUOTE.exec(lines[end++])[1]);
  const node = element("blockquote");
  blocks(inner, node, depth + 1);
  return { node, next: end };
}

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first) return null;
  const isOrdered = /\d/.test(first[2]);
  const node = element(isOrdered ? "ol" : "ul");
  if (isOrdered) node.start = parseInt(first[2], 10);
  let end = at;
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    if (!item || item[1].length !== first[1].length || /\d/.test(item[2]) !== isOrdered) break;
    const inner = [item[3]];
    end += 1;
    while (end < lines.length && belongs(lines, end, first[1].length)) inner.push(lines[end++].replace(/^\s{1,4}/, ""));
    node.append(listItem(inner, depth));
  }
  return { node, next: end };
}

function belongs(lines, at, indent) {
  if (!lines[at].trim()) return at + 1 < lines.length && lines[at + 1].search(/\S/) > indent;
  return lines[at].search(/\S/) > indent;
}

function listItem(lines, depth) {
  const node = element("li");
  let end = 1;
  while (end < lines.length && lines[end].trim() && !ITEM.test(lines[end]) && !FENCE.test(lines[end])) end += 1;
  inlined(node, lines.slice(0, end).join("\n"));
  blocks(lines.slice(end), node, depth + 1);
  return node;
}

function table(lines, at) {
  if (!lines[at].includes("|") || at + 1 >= lines.length || !TABLE_RULE.test(lines[at + 1])) return null;
  const width = cells(lines[at]).length;
  if (cells(lines[at + 1]).length !== width) return null;
  const body = element("tbody");
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|"); end += 1) {
    const given = cells(lines[end]);
    body.append(element("tr", ...Array.from({ length: width }, (_, i) => inlined(element("td"), given[i] ?? ""))));
  }
  const head = element("thead", element("tr", ...cells(lines[at]).map((cell) => inlined(element("th"), cell))));
  const node = element("div", element("table", head, body));
  node.className = "table";
  return { node, next: end };
}

function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((cell) => cell.trim());
}

function paragraph(lines, at, depth) {
  let end = at + 1;
  const begins = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
  while (end < lines.length && lines[end].trim() && (depth >= MAX_DEPTH || !begins(lines[end]))) end += 1;
  return { node: inlined(element("p"), lines.slice(at, end).join("\n")), next: end };
}

function inlined(parent, text, depth = 0) {
  let plain = "";
  let at = 0;
  const flush = () => { if (plain) parent.append(plain); plain = ""; };
  while (at < text.length) {
    const piece = depth < MAX_DEPTH ? special(text, at, depth) : null;
    if (!piece) { plain += text[at]; at += 1; continue; }
    flush();
    parent.append(piece.node);
    at = piece.next;
  }
  flush();
  return parent;
}

function special(text, at, depth) {
  switch (text[at]) {
    case "\n": return { node: element("br"), next: at + 1 };
    case "\\": return escaped(text, at);
    case "`": return code(text, at);
    case "!": return text[at + 1] === "[" ? link(text, at, depth) : null;
    case "[": return link(text, at, depth);
    case "h": return bareLink(text, at);
    case "*": case "_": case "~": return span(text, at, depth);
    default: return null;
  }
}

function match(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function escaped(text, at) {
  const found = match(ESCAPE, text, at);
  return found && { node: document.createTextNode(found[1]), next: at + 2 };
}

function code(text, at) {
  let ticks = 1;
  while (text[at + ticks] === "`") ticks += 1;
  const mark = "`".repeat(ticks);
  const end = text.slice(at + ticks, at + MAX_SPAN).indexOf(mark);
  if (end < 1) return { node: document.createTextNode(mark), next: at + ticks };
  return { node: element("code", text.slice(at + ticks, at + ticks + end)), next: at + 2 * ticks + end };
}

function span(text, at, depth) {
  for (const [mark, name] of SPANS) {
    if (!text.startsWith(mark, at)) continue;
    const start = at + mark.length;
    const end = closing(text, start, mark);
    if (end < 0) continue;
    return { node: inlined(element(name), text.slice(start, end), depth + 1), next: end + mark.length };
  }
  return null;
}

function closing(text, start, mark) {
  if (!text[start] || /\s/.test(text[start])) return -1;
  // An underscore inside a file's name and a star inside a sum are no marks.
  if ((mark[0] === "_" || mark === "*") && /\w/.test(text[start - mark.length - 1] ?? "")) return -1;
  const window = text.slice(start, start + MAX_SPAN);
  for (let end = window.indexOf(mark, 1); end > 0; end = window.indexOf(mark, end + 1)) {
    const after = window[end + mark.length] ?? "";
    const isLonger = mark.length === 1 && (after === mark || window[end - 1] === mark);
    if (!/\s/.test(window[end - 1]) && !isLonger && !(mark[0] === "_" && /\w/.test(after))) return start + end;
  }
  return -1;
}

function link(text, at, depth) {
  const found = match(LINK, text, at);
  const node = found && anchor(found[2], "");
  if (!node) return null;
  return { node: inlined(node, found[1] || found[2], depth + 1), next: at + found[0].length };
}

function bareLink(text, at) {
  const found = match(BARE_LINK, text, at);
  if (!found) return null;
  const address = found[0].replace(/[.,;:!?)\]}*_~]+$/, "");
  const node = anchor(address, address);
  return node && { node, next: at + address.length };
}

function anchor(address, label) {
  let url;
  try { url = new URL(address); } catch { return null; }
  if (url.protocol !== "https:" && url.protocol !== "http:") return null;
  const node = element("a", label);
  node.href = url.href;
  node.target = "_blank";
  node.rel = "noopener noreferrer nofollow";
  return node;
}
