// Who answers in the open chat, and by what model: shown where there is something to choose.

import { page } from "./page.js";
import { refusal } from "./stream.js";
import { texts } from "./texts.js";

const $ = (id) => document.getElementById(id);

const chosen = { persona_id: null, model: null };

// Before its first turn a chat has no place for what is chosen: it goes with the message.
const hasBegun = () => $("log").querySelector("[data-turn]") !== null;

export function offerChoices({ personas, models }) {
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
  show($("choose-persona"), chosen.persona_id);
  show($("choose-model"), chosen.model);
}

// What is not open any more does not count, so the default answers.
function show(select, value) {
  select.value = value ?? "";
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

// What the next message brings along.
export function firstChoices() {
  return hasBegun() || (chosen.persona_id === null && chosen.model === null) ? null : JSON.stringify(chosen);
}

async function choose(change) {
  Object.assign(chosen, change);
  if (!hasBegun()) return;
  const body = JSON.stringify(change);
  try {
    const response = await fetch(`/page/chats/${page.chat}/choices`, { method: "PUT", body, headers: { "Content-Type": "application/json" } });
    complain(response.ok ? "" : await refusal(response));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    complain(texts.unreachable);
  }
}

function complain(reason) {
  $("box-note").textContent = reason;
  $("box-note").hidden = !reason;
}

$("choose-persona").addEventListener("change", () => choose({ persona_id: Number($("choose-persona").value) || null }));
$("choose-model").addEventListener("change", () => choose({ model: $("choose-model").value || null }));
