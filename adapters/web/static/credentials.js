// The form that asks for a credential: what is entered stands in no message, and is not shown.

import { refusal } from "./stream.js";
import { fill, texts } from "./texts.js";

export function credentialForm(name) {
  const form = document.createElement("form");
  form.className = "credential";
  const field = document.createElement("input");
  field.type = "password";
  field.required = true;
  field.maxLength = 4000;
  field.autocomplete = "off";
  field.setAttribute("aria-label", fill(texts.credential_for, { name }));
  const button = document.createElement("button");
  button.textContent = texts.keep;
  const reply = document.createElement("p");
  reply.setAttribute("role", "status");
  form.append(field, button, reply);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    reply.textContent = await keep(name, field, () => { field.remove(); button.remove(); });
    button.disabled = false;
  });
  return form;
}

async function keep(name, field, done) {
  const body = JSON.stringify({ name, value: field.value });
  try {
    const response = await fetch("/chat/credentials", { method: "POST", body, headers: { "Content-Type": "application/json" } });
    if (!response.ok) return await refusal(response);
    done();
    return (await response.json()).content;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return texts.unreachable;
  }
}
