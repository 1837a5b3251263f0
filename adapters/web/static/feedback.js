// Thumbs up and down below an answer, with a comment.

import { faultLine, icon, node } from "./nodes.js";
import { refusal } from "./stream.js";

const QUESTIONS = { 1: "What was good about it?", "-1": "What was wrong?" };

// Returns the two buttons; `feedback` is what the person has said of the answer before.
export function thumbs(answer, feedback) {
  const state = { score: 0, comment: "", ...feedback };
  const buttons = [[1, "up", "Good answer"], [-1, "down", "Bad answer"]].map(([score, name, label]) => {
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
  const status = node("p", "facts", state.comment ? "" : "Thank you; that is noted. A word about why helps more.");
  status.setAttribute("role", "status");
  const form = node("form", "why", text, node("button", "", "Save"), status);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const comment = text.value.trim();
    const reason = await save(answer, { score: state.score, comment });
    if (!reason) state.comment = comment;
    status.textContent = reason ?? "Saved.";
  });
  return form;
}

async function save(answer, change) {
  const chat = location.hash.slice(1);
  try {
    const body = JSON.stringify(change);
    const response = await fetch(`/page/chats/${chat}/turns/${answer.dataset.turn}/feedback`, { method: "PUT", body, headers: { "Content-Type": "application/json" } });
    return response.ok ? null : await refusal(response);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return "The server can't be reached; please try again.";
  }
}
