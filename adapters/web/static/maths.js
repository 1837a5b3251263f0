// Maths in Markdown: $…$ and \(…\) within a line, $$…$$ and \[…\] as blocks, drawn by the browser from KaTeX's MathML.

import DOMPurify from "./vendor/dompurify.js";

const ALLOWED = { USE_PROFILES: { mathMl: true }, RETURN_DOM_FRAGMENT: true };
const OPTIONS = { output: "mathml", throwOnError: true, strict: "ignore", trust: false, maxSize: 20, maxExpand: 200 };
const LONGEST = 4000;
// Neither "$5 or $6" nor "$5/$6" is maths.
const INLINE = [/\$(?![\s$])((?:\\.|[^\\$\n])+?)(?<!\s)\$(?!\d)/y, /\\\((.+?)\\\)/y];
const BLOCK = [/^\s*\$\$([\s\S]+?)\$\$\s*$/, /^\s*\\\[([\s\S]+?)\\\]\s*$/];
const OPENING = /^\s*(\$\$|\\\[)/;
const CLOSING = { $$: "$$", "\\[": "\\]" };

export function addMaths(markdown) {
  const { escapeHtml } = markdown.utils;
  markdown.inline.ruler.before("escape", "maths", (state, silent) => {
    for (const rule of INLINE) {
      rule.lastIndex = state.pos;
      const match = rule.exec(state.src);
      if (!match || match[0].length > LONGEST) continue;
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
    let end = first;
    let text = lineOf(first);
    while (end + 1 < last && (text.trim().length <= mark.length || !text.trimEnd().endsWith(CLOSING[mark])) && text.length < LONGEST) {
      end += 1;
      text += `\n${lineOf(end)}`;
    }
    const match = BLOCK.map((rule) => rule.exec(text)).find(Boolean);
    if (!match) return false;
    if (silent) return true;
    const token = state.push("maths_block", "code", 0);
    token.content = match[1].trim();
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

// Draws a formula in the place of its source, which stays where KaTeX does not understand it.
export function typeset(code) {
  library ??= import("./vendor/katex.js").catch(() => { library = null; });
  library.then((katex) => { if (katex) draw(katex, code); });
}

function draw(katex, code) {
  const isBlock = code.classList.contains("block");
  let html;
  try {
    html = katex.renderToString(code.textContent, { ...OPTIONS, displayMode: isBlock });
  } catch {
    return;
  }
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
