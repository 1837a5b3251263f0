// What was said before, from the transcript: turns and replies to commands, read backwards page by page.

import { TurnView, personMessage } from "./view.js";

// Returns the nodes of a page of the transcript in their order; `keep` is given each turn with its view. Only what was said
// last can still be answered by its buttons.
export function pastNodes(body, keep, { isNewest }) {
  const entries = [
    ...body.turns.map((turn) => ({ at: turn.turn_id, last: -1, nodes: () => turnNodes(turn, keep) })),
    ...body.replies.map((reply) => ({ at: reply.turn_id, last: reply.reply_id, nodes: () => replyNodes(reply) })),
  ];
  entries.sort((one, other) => one.at - other.at || one.last - other.last);
  const nodes = entries.map((entry) => entry.nodes());
  for (const past of (isNewest ? nodes.slice(0, -1) : nodes).flat()) past.querySelector(".choices")?.remove();
  return nodes.flat();
}

function turnNodes(turn, keep) {
  const view = new TurnView();
  view.node.dataset.turn = turn.turn_id;
  Object.assign(view, { branch: turn.branch, feedback: turn.feedback });
  view.show(turn.persona);
  const messages = [];
  for (const event of turn.events) {
    if (event.name === "user_message") messages.push(personMessage(event.content, event.files, { at: turn.at }));
    else view.take({ ...event, turn_id: turn.turn_id });
  }
  keep(turn, view);
  return [...messages, view.node];
}

export function replyNodes(reply) {
  const view = new TurnView();
  view.take({ ...reply, name: "message", seq: 0, choices: [] });
  view.take({ name: "turn_complete", seq: 1 });
  return [personMessage(reply.line, [], { at: reply.at, canEdit: false }), view.node];
}
