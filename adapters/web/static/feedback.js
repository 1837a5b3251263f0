// Thumbs up and down below an answer, with a comment.

import { faultLine, icon, node } from "./nodes.js";
import { sendJson } from "./stream.js";
import { texts } from "./texts.js";

const QUESTIONS = { 1: texts.why_good, "-1": texts.why_bad };

// Returns the two buttons; `feedback` is what the person has said of the answer before.
export function thumbs(answer, feedback) {
  const state = { score: 0, comment: "", ...feedback };
  const buttons = [[1, "up", texts.good_answer], [-1, "down", texts.bad_answer]].map(([score, name, label]) => {
    const thumb = node("button", `thumb ${name}`, icon("thumb"));
    thumb.type = "button";
    thumb.title = label;
    thumb.setAttribute("aria-label", label);
    thumb.addEventListener("click", () => vote(score));
    return [score, thumb];
  });
  const draw = () => {
    for (const [score, thumb] of buttons) thumb.setAttribute("aria-pressed", String(score === state.score));
  };
  async function vote(score) {
    const change = score === state.score ? { score: 0, comment: "" } : { score, comment: "" };
    answer.querySelector(".why")?.remove();
    const reason = await save(answer, change);
    if (reason) {
      answer.append(faultLine(reason));
      return;
    }
    Object.assign(state, change);
    draw();
    if (state.score) answer.append(why(answer, state));
  }
  draw();
  if (state.comment) answer.append(why(answer, state));
  return buttons.map(([, thumb]) => thumb);
}

function why(answer, state) {
  const text = node("input");
  text.value = state.comment ?? "";
  text.maxLength = 2000;
  text.autocomplete = "off";
  text.placeholder = QUESTIONS[state.score];
  text.setAttribute("aria-label", QUESTIONS[state.score]);
  const status = node("p", "facts", state.comment ? "" : texts.vote_noted);
  status.setAttribute("role", "status");
  const form = node("form", "why", text, node("button", "", texts.save), status);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const comment = text.value.trim();
    const reason = await save(answer, { score: state.score, comment });
    if (!reason) state.comment = comment;
    status.textContent = reason ?? texts.saved;
  });
  return form;
}

function save(answer, change) {
  return sendJson(`/page/chats/${location.hash.slice(1)}/turns/${answer.dataset.turn}/feedback`, "PUT", change);
}
