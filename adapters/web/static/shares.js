// Links by which the open chat is shown to others: made, copied, listed and ended.

import { copyButton } from "./markdown.js";
import { faultLine, node } from "./nodes.js";
import { refusal } from "./stream.js";
import { fill, texts } from "./texts.js";

const $ = (id) => document.getElementById(id);
const DAY = new Intl.DateTimeFormat(texts.language, { dateStyle: "medium" });

async function ask(address, method, body) {
  $("share-form").querySelector(".fault")?.remove();
  try {
    const options = body ? { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } } : {};
    const response = await fetch(address, { method, ...options });
    if (response.ok) return await response.json();
    $("share-form").prepend(faultLine(await refusal(response)));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    $("share-form").prepend(faultLine(texts.unreachable));
  }
  return null;
}

function entry(share, isNew) {
  const link = node("input", "share-link");
  link.value = new URL(share.url, location.href).href;
  link.readOnly = true;
  link.setAttribute("aria-label", fill(texts.link_to, { title: share.title }));
  link.addEventListener("focus", () => link.select());
  const end = node("button", "danger", texts.end_link);
  end.type = "button";
  end.setAttribute("aria-label", fill(texts.end_link_to, { title: share.title }));
  end.addEventListener("click", async () => {
    if (!await ask(`/page/shares/${share.id}`, "DELETE")) return;
    await list();
    // The button is gone with its link.
    ($("share-list").querySelector("button.danger") ?? $("share-days")).focus();
  });
  const facts = node("span", "facts", fill(texts.link_until, { title: share.title, day: DAY.format(new Date(share.expires_at)) }));
  const item = node("li", isNew ? "new" : "", facts, node("div", "share-row", link, copyButton(() => link.value), end));
  return item;
}

async function list(newest = null) {
  const body = await ask("/page/shares", "GET");
  if (!body) return;
  $("share-list").replaceChildren(...body.shares.map((share) => entry(share, share.id === newest)));
  $("share-list").querySelector(".new input")?.focus();
}

// `chat` returns the open one.
export function onShare(chat) {
  $("share").addEventListener("click", () => {
    $("chat-menu").hidePopover();
    $("share-list").replaceChildren();
    $("share-dialog").showModal();
    list();
  });
  $("share-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const share = await ask(`/page/chats/${chat()}/shares`, "POST", { days: Number($("share-days").value) });
    if (share) await list(share.id);
  });
}
