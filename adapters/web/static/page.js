// The open chat: what is shown of it, and what is being followed.

const $ = (id) => document.getElementById(id);

export const page = {
  chat: null,
  // Counts up each time that a chat is read: what is followed since before is not shown any more.
  visit: 0,
  // By the turn's id.
  turns: new Map(),
  // What is being followed, by its address.
  running: new Set(),
  // Event ids that this window has sent, and inbox ids that it follows.
  own: new Set(),
  newest: { message: 0, turn: 0, reply: 0, answer: 0 },
  branch: "",
  // The turn before which the past goes on; null: all of it is shown.
  oldest: null,
  // What is being read of it.
  reading: null,
  loaded: Promise.resolve(),
  // Until what was sent last has arrived: what is sent next comes after it.
  sent: Promise.resolve(),
  watch: null,
};

export function refresh() {
  $("stop").hidden = page.running.size === 0;
  const isEmpty = $("log").childElementCount === 0;
  $("welcome").hidden = !isEmpty;
  // With a chat in which nothing was said there is nothing to do.
  $("open-chat-menu").hidden = isEmpty;
}

// What the person says next answers the question before it, or leaves it: its buttons go.
export function append(...messages) {
  for (const choices of $("log").querySelectorAll(".choices")) {
    if (choices.contains(document.activeElement)) $("text").focus();
    choices.remove();
  }
  $("log").append(...messages);
}
