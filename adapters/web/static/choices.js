// Who answers in the open chat, and by what model: shown where there is something to choose.

import { pictureOf } from "./nodes.js";
import { page } from "./page.js";
import { sendJson } from "./stream.js";

const $ = (id) => document.getElementById(id);

const chosen = { persona_id: null, model: null };
// What the server has of it.
const stored = { ...chosen };
// Before its first turn a chat has no place for what is chosen: it goes with the next message. So does what the server
// has not confirmed by then.
let unsent = {};
// One after the other: of two at once, the first might count last.
let sending = Promise.resolve();

const hasBegun = () => $("log").querySelector("[data-turn]") !== null;

// Of the persona that answers where nothing is chosen, and of those that can be, by their ids.
const faces = new Map();

// The name and the picture of the persona that answers in the open chat, as far as the page knows yet.
export const face = () => faces.get(chosen.persona_id) ?? faces.get(null);

let tellOffered;
// An answer may begin before the page knows who can answer.
export const offered = new Promise((resolve) => (tellOffered = resolve));

export function offerChoices({ persona, personas, models }) {
  for (const { id, ...named } of [{ id: null, ...persona }, ...personas]) faces.set(id, named);
  tellOffered();
  list($("choose-persona"), personas);
  list($("choose-model"), models);
  showChosen();
}

function list(select, options) {
  select.replaceChildren(...options.map(({ id, name }) => new Option(name, id ?? "")));
  select.hidden = !options.length;
  $("choices").hidden = $("choose-persona").hidden && $("choose-model").hidden;
}

export function showChoices(choices) {
  Object.assign(chosen, choices);
  Object.assign(stored, choices);
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
  // What the chat says that it has arrives with its past, and is not chosen later than this. It may be read once more.
  for (let read = null; read !== page.loaded;) await (read = page.loaded);
  if (page.chat !== chat) return;
  Object.assign(chosen, change);
  Object.assign(unsent, change);
  showChosen();
  if (!hasBegun()) return;
  sending = sending.then(() => sendJson(`/page/chats/${chat}/choices`, "PUT", change));
  const reason = await sending;
  if (page.chat !== chat) return;
  $("box-note").textContent = reason ?? "";
  $("box-note").hidden = !reason;
  if (!reason) Object.assign(stored, change);
  // Another may have been chosen meanwhile; what did not count is not shown as chosen.
  for (const name of Object.keys(change).filter((name) => chosen[name] === change[name])) {
    chosen[name] = stored[name];
    delete unsent[name];
  }
  showChosen();
}

$("choose-persona").addEventListener("change", () => choose({ persona_id: Number($("choose-persona").value) || null }));
$("choose-model").addEventListener("change", () => choose({ model: $("choose-model").value || null }));
