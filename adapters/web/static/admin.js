// The admin pages work without this file; with it, forms answer in place and what changes by itself is shown live.

import htmx from "/static/vendor/htmx.js";

const refuse = () => { throw new TypeError("text as a script"); };
// What the server sends is escaped there (autoescape), and comes from our own origin alone.
const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("htmx", { createHTML: (text) => text, createScript: () => "" })
  : { createHTML: (text) => text, createScript: () => "" };

htmx.config.history = false;
htmx.registerExtension("parley", {
  init: (api) => api.initSecurity(policy, refuse, refuse),
});

// What is no page of ours takes the place of nothing: no answer at all, that of a proxy, and what everybody else gets here.
const { closed, silent } = document.querySelector("#trouble").dataset;

const tell = (sentence) => {
  const trouble = document.querySelector("#trouble");
  trouble.hidden = !sentence;
  if (trouble.textContent !== sentence) trouble.textContent = sentence;
};

document.addEventListener("htmx:before:response", (event) => {
  const { status } = event.detail.ctx.response;
  const isPage = status === 200 || status === 422;
  tell(isPage ? "" : status === 404 ? closed : silent);
  if (!isPage) event.preventDefault();
});

document.addEventListener("htmx:error", () => tell(silent));

// After a form has answered, a screen reader and the eye go to what it said.
document.addEventListener("htmx:after:swap", () => {
  document.querySelector(".refusal, #result > *")?.scrollIntoView({ block: "nearest" });
});

// A hidden window asks for nothing: it is shown as it was, and the next round brings it up to date.
document.addEventListener("htmx:before:request", (event) => {
  if (document.hidden && event.detail.ctx.request.method === "GET") event.preventDefault();
});

// On a phone the menu is one line, in which the page may be out of sight.
document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
// Browsers leave a link that has the focus where a part of it is in sight.
document.querySelector(".side nav").addEventListener("focusin", (event) => event.target.scrollIntoView({ block: "nearest", inline: "nearest" }));
