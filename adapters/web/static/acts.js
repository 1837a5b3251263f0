// What can be done with a message and an answer: asking again, saying it otherwise, going to and fro between branches.

import { icon, node } from "./nodes.js";
import { fill, texts } from "./texts.js";

// The page does what a button says: it knows the chat.
function button(className, name, detail, ...children) {
  const made = node("button", className, ...children);
  made.type = "button";
  made.addEventListener("click", () => made.dispatchEvent(new CustomEvent(name, { bubbles: true, detail })));
  return made;
}

export const againButton = (label = texts.try_again) => button("again", "again", null, label);

// What was stopped or cut off goes on in a message of its own.
export const goOnButton = () => button("again", "choice", { text: texts.please_go_on }, texts.go_on);

export const editButton = () => button("", "edit", null, texts.edit);

// A click says it as if it had been typed; a question for confirmation is answered by its id, whatever was said since.
export const choiceButton = (text, confirmation, label = text) => button("choice", "choice", { text, confirmation }, label);

// Of a turn in whose place others stand: which it is, and the way to its neighbours.
export function arrows({ place, total, previous, next }) {
  const arrow = (name, label, turn) => {
    const made = button(`arrow ${name}`, "branch", { turn, name }, icon("chevron"));
    made.setAttribute("aria-label", label);
    made.disabled = turn === null;
    return made;
  };
  const group = node("span", "arrows", arrow("back", texts.earlier_version, previous), node("span", "", `${place}/${total}`), arrow("forth", texts.later_version, next));
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", fill(texts.version_of, { place, total }));
  return group;
}
