// Maths in Markdown: $…$ and \(…\) within a line, $$…$$ and \[…\] as blocks, drawn by the browser from KaTeX's MathML.

import DOMPurify from "./vendor/dompurify.js";

const ALLOWED = { USE_PROFILES: { mathMl: true }, RETURN_DOM_FRAGMENT: true };
const OPTIONS = { output: "mathml", throwOnError: true, strict: "ignore", trust: false, maxSize: 20, maxExpand: 200 };
const LONGEST = 4000;
// A few of these make a formula of a line into one of millions of letters.
const DEFINES = /\\(?:[egx]?def|let|futurelet|(?:re)?newcommand|providecommand)(?![a-z])/i;
// Browsers never end with formulas that are nested hundreds deep.
const DEEPEST = 60;
const TAG = /<(\/?)m/g;
// So long are formulas drawn before the page hears the person again, in milliseconds.
const SLICE = 50;
// Neither "$5 or $6" nor "$5/$6" is maths. None is looked for behind the next opening.
const INLINE = [/\$(?![\s$])((?:\\.|[^\\$\n]){1,4000}?)(?<!\s)\$(?!\d)/y, /\\\(((?:(?!\\\().){1,4000}?)\\\)/y];
const OPENING = /^\s*(\$\$|\\\[)/;
const CLOSING = { $$: "$$", "\\[": "\\]" };

export function addMaths(markdown) {
  const { escapeHtml } = markdown.utils;
  markdown.inline.ruler.before("escape", "maths", (state, silent) => {
    for (const rule of INLINE) {
      rule.lastIndex = state.pos;
      const match = rule.exec(state.src);
      if (!match) continue;
      if (!silent) state.push("maths_inline", "code", 0).content = match[1];
      state.pos += match[0].length;
      return true;
    }
    return false;
  });
  markdown.block.ruler.before("fence", "maths", (state, first, last, silent) => {
    const lineOf = (line) => state.src.slice(state.bMarks[line] + state.tShift[line], state.eMarks[line]);
    const mark = OPENING.exec(lineOf(first))?.[1];
    if (!mark) return false;
    // What opens once more was not closed before: so each line is looked at once.
    let end = first;
    const lines = [lineOf(first).trim().slice(mark.length)];
    for (let length = 0; !lines.at(-1).endsWith(CLOSING[mark]); length += lines.at(-1).length) {
      end += 1;
      const line = end < last ? lineOf(end).trim() : "";
      const isOutside = end === last || (line && state.sCount[end] < state.blkIndent);
      if (isOutside || length > LONGEST || (line !== CLOSING[mark] && OPENING.test(line))) return false;
      lines.push(line);
    }
    const content = lines.join("\n").slice(0, -CLOSING[mark].length).trim();
    if (!content || content.length > LONGEST) return false;
    if (silent) return true;
    const token = state.push("maths_block", "code", 0);
    token.content = content;
    token.map = [first, end + 1];
    token.block = true;
    state.line = end + 1;
    return true;
  }, { alt: ["paragraph", "blockquote", "list"] });
  markdown.renderer.rules.maths_inline = (tokens, at) => `<code class="maths">${escapeHtml(tokens[at].content)}</code>`;
  markdown.renderer.rules.maths_block = (tokens, at) => `<p><code class="maths block">${escapeHtml(tokens[at].content)}</code></p>\n`;
}

// Loaded with the first formula.
let library = null;
const waiting = [];
let isResting = false;

// Draws a formula in the place of its source, which stays where KaTeX does not understand it.
export function typeset(code) {
  if (DEFINES.test(code.textContent)) return;
  waiting.push(code);
  library ??= import("./vendor/katex.js").catch(() => { library = null; });
  library.then((katex) => { if (katex) drawWaiting(katex); });
}

function drawWaiting(katex) {
  const end = performance.now() + SLICE;
  while (!isResting && waiting.length) {
    draw(katex, waiting.shift());
    isResting = performance.now() > end;
    if (isResting) setTimeout(() => { isResting = false; drawWaiting(katex); });
  }
}

function draw(katex, code) {
  const isBlock = code.classList.contains("block");
  let html;
  try {
    html = katex.renderToString(code.textContent, { ...OPTIONS, displayMode: isBlock });
  } catch {
    return;
  }
  if (depthOf(html) > DEEPEST) return;
  // Its source would be shown a second time where the annotation is taken out, and styles have no place in the page.
  const formula = DOMPurify.sanitize(html.replace(/<annotation[\s\S]*?<\/annotation>/g, "").replace(/ style="[^"]*"/g, ""), ALLOWED);
  if (!isBlock) {
    code.replaceWith(formula);
    return;
  }
  const frame = document.createElement("div");
  frame.className = "formula";
  // It may be wider than the page: keys have to reach it.
  frame.tabIndex = 0;
  frame.append(formula);
  (code.closest("p") ?? code).replaceWith(frame);
}

// Of the elements of MathML, whose names begin with an m, and which KaTeX closes all.
function depthOf(html) {
  let depth = 0;
  let deepest = 0;
  for (const [, end] of html.matchAll(TAG)) {
    depth += end ? -1 : 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}
