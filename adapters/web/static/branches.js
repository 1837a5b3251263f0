// Branches of the open chat: an answer is asked for again, a message is said otherwise, an earlier version is shown.

import { leave } from "./frame.js";
import { faultLine, node } from "./nodes.js";
import { newId, sendJson } from "./stream.js";
import { texts } from "./texts.js";

const $ = (id) => document.getElementById(id);

// `current` returns the chat, `show` reads it again and goes to a turn, or to its end without one.
export function onBranches(current, show) {
  const log = $("log");
  log.addEventListener("again", (event) => again(current(), event.target.closest(".agent"), show));
  log.addEventListener("branch", (event) => choose(current(), event.detail, show));
  log.addEventListener("edit", (event) => edit(event.target.closest(".person"), (turn, content, id) => begin(current(), { turn, content, id }, show)));
}

// Of a turn that ended while it was shown nobody has told yet what it stands in place of.
export async function showVersions(chat, view) {
  try {
    const response = await fetch(`/page/chats/${chat}/branch?turn=${view.node.dataset.turn}`);
    const { branch } = response.ok ? await response.json() : {};
    if (branch) view.showVersions(branch);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
}

async function again(chat, answer, show) {
  const reason = await begin(chat, { turn: Number(answer.dataset.turn), id: newId() }, show);
  if (reason) answer.append(faultLine(reason));
}

async function choose(chat, { turn, name }, show) {
  const reason = await sendJson(`/page/chats/${chat}/branch`, "PUT", { turn_id: turn });
  if (reason) {
    $("log").append(faultLine(reason));
    return;
  }
  await show(turn);
  const group = $("log").querySelector(`[data-turn="${turn}"] .arrows`);
  (group?.querySelector(`.${name}:enabled`) ?? group?.querySelector("button:enabled"))?.focus();
  $("announcer").textContent = group?.getAttribute("aria-label") ?? "";
}

// Says something in place of a turn; returns why that was refused, null when it was done.
async function begin(chat, { turn, content, id }, show) {
  const reason = await sendJson(`/page/chats/${chat}/branches`, "POST", { turn_id: turn, event_id: id, ...(content ? { content } : {}) });
  if (reason !== null) return reason;
  // The chat is read anew.
  leave(document.activeElement);
  await show(null);
  return null;
}

// Turns a message into a box with its text.
function edit(message, save) {
  const answer = answerOf(message);
  if (!answer || message.querySelector(".edit")) return;
  // What was sent in a row is answered as one.
  const messages = [message];
  while (messages[0].previousElementSibling?.matches(".person")) messages.unshift(messages[0].previousElementSibling);
  while (messages.at(-1).nextElementSibling?.matches(".person")) messages.push(messages.at(-1).nextElementSibling);
  const id = newId();
  const text = node("textarea");
  text.value = messages.map((one) => one.querySelector(".bubble")?.textContent ?? "").filter(Boolean).join("\n");
  text.setAttribute("aria-label", texts.edited_message);
  text.rows = Math.min(10, text.value.split("\n").length + 1);
  const cancel = node("button", "", texts.cancel);
  cancel.type = "button";
  const form = node("form", "edit", text, node("div", "edit-acts", node("span", "facts", texts.edit_keeps), cancel, node("button", "primary", texts.send)));
  const leave = () => {
    form.remove();
    message.classList.remove("editing");
    message.querySelector(".acts button:last-of-type")?.focus();
  };
  cancel.addEventListener("click", leave);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      leave();
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!text.value.trim()) return;
    form.querySelector(".fault")?.remove();
    const reason = await save(Number(answer.dataset.turn), text.value.trim(), id);
    if (reason) form.prepend(faultLine(reason));
  });
  message.classList.add("editing");
  message.append(form);
  text.focus();
}

function answerOf(message) {
  let next = message.nextElementSibling;
  while (next?.matches(".person")) next = next.nextElementSibling;
  return next?.dataset.turn ? next : null;
}
