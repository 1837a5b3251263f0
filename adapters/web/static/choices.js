// Who answers in the open chat, and by what model: shown where there is something to choose.

import { pictureOf } from "./nodes.js";
import { page } from "./page.js";
import { sendJson } from "./stream.js";

const $ = (id) => document.getElementById(id);

const chosen = { persona_id: null, model: null };
// Before its first turn a chat has no place for what is chosen: it goes with the next message.
let unsent = {};

const hasBegun = () => $("log").querySelector("[data-turn]") !== null;

// Of the persona that answers where nothing is chosen, and of those that can be, by their ids.
const faces = new Map();

// The name and the picture of the persona that answers in the open chat, as far as the page knows yet.
export const face = () => faces.get(chosen.persona_id) ?? faces.get(null);

export function offerChoices({ persona, personas, models }) {
  for (const { id, ...offered } of [{ id: null, ...persona }, ...personas]) faces.set(id, offered);
  list($("choose-persona"), personas);
  list($("choose-model"), models);
  showChoices(chosen);
}

function list(select, options) {
  select.replaceChildren(...options.map(({ id, name }) => new Option(name, id ?? "")));
  select.hidden = !options.length;
  $("choices").hidden = $("choose-persona").hidden && $("choose-model").hidden;
}

export function showChoices(choices) {
  Object.assign(chosen, choices);
  unsent = {};
  showChosen();
}

function showChosen() {
  show($("choose-persona"), chosen.persona_id);
  show($("choose-model"), chosen.model);
  const picture = face()?.picture;
  $("face").hidden = !picture;
  if (picture) $("face").src = pictureOf(picture);
}

// What is not open any more does not count, so the default answers.
function show(select, value) {
  select.value = value ?? "";
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

// What the next message brings along; the first one may be refused, and say it again.
export function takeChoices() {
  const taken = Object.keys(unsent).length ? JSON.stringify(unsent) : null;
  if (hasBegun()) unsent = {};
  return taken;
}

async function choose(change) {
  const { chat } = page;
  // What the chat says that it has arrives with its past, and is not chosen later than this.
  await page.loaded;
  if (page.chat !== chat) return;
  const before = { ...chosen };
  Object.assign(chosen, change);
  showChosen();
  if (!hasBegun()) {
    Object.assign(unsent, change);
    return;
  }
  const reason = await sendJson(`/page/chats/${chat}/choices`, "PUT", change);
  if (page.chat !== chat) return;
  $("box-note").textContent = reason ?? "";
  $("box-note").hidden = !reason;
  // What did not count is not shown as chosen.
  if (reason) showChoices(before);
}

$("choose-persona").addEventListener("change", () => choose({ persona_id: Number($("choose-persona").value) || null }));
$("choose-model").addEventListener("change", () => choose({ model: $("choose-model").value || null }));
