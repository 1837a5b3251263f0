// What can be done with the open chat: naming, pinning, exporting, erasing.

import { changeChat, chatOf, loadChats } from "./chats.js";
import { dropDraft } from "./composer.js";
import { faultLine } from "./nodes.js";
import { onShare } from "./shares.js";
import { refusal } from "./stream.js";
import { texts } from "./texts.js";

const $ = (id) => document.getElementById(id);

const menu = { chat: null, leave: null };

// `leave` is called when the open chat has been erased.
export function openMenuOf(chat, leave) {
  Object.assign(menu, { chat, leave });
}

// What its entries do depends on the chat.
export function refreshMenu() {
  for (const entry of $("chat-menu").children) entry.hidden = $("open-chat-menu").hidden;
  $("pin").textContent = chatOf(menu.chat)?.is_pinned ? texts.unpin : texts.pin;
  for (const kind of ["md", "json"]) $(`export-${kind}`).href = `/page/chats/${menu.chat}/export?format=${kind}`;
}

$("chat-menu").addEventListener("beforetoggle", (event) => { if (event.newState === "open") refreshMenu(); });

onShare(() => menu.chat);

function ask(dialog) {
  $("chat-menu").hidePopover();
  dialog.querySelector(".fault")?.remove();
  dialog.showModal();
}

$("rename").addEventListener("click", () => {
  $("new-title").value = chatOf(menu.chat)?.title ?? "";
  ask($("rename-dialog"));
  $("new-title").select();
});
$("pin").addEventListener("click", async () => {
  $("chat-menu").hidePopover();
  await changeChat(menu.chat, { is_pinned: !chatOf(menu.chat)?.is_pinned });
});
$("delete").addEventListener("click", () => ask($("delete-dialog")));
$("rename-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const reason = await changeChat(menu.chat, { title: $("new-title").value.trim() });
  if (reason) $("rename-form").prepend(faultLine(reason));
  else $("rename-dialog").close();
});
$("delete-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("delete-now").disabled = true;
  const reason = await erase(menu.chat);
  $("delete-now").disabled = false;
  if (reason) {
    $("delete-form").prepend(faultLine(reason));
    return;
  }
  dropDraft(menu.chat);
  $("delete-dialog").close();
  await loadChats();
  menu.leave();
});
for (const button of document.querySelectorAll("[data-closes]")) button.addEventListener("click", () => $(button.dataset.closes).close());

async function erase(chat) {
  try {
    const response = await fetch(`/page/chats/${chat}`, { method: "DELETE" });
    // One in which nothing was said is gone as well.
    return response.ok || response.status === 404 ? null : await refusal(response);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return texts.unreachable;
  }
}
