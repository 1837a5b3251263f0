// The events of the turns that run in the open chat.

import { showVersions } from "./branches.js";
import { putBack } from "./composer.js";
import { offline } from "./frame.js";
import { faultLine } from "./nodes.js";
import { notify } from "./notices.js";
import { page, refresh } from "./page.js";
import { WAITS, events, pause, refusal } from "./stream.js";
import { TurnView } from "./view.js";

const $ = (id) => document.getElementById(id);

function turnOf(event, placeholder) {
  let turn = page.turns.get(event.turn_id);
  if (turn) {
    if (placeholder && placeholder !== turn) {
      // Whichever of the messages heard of the turn first: the answer stands below the last of them.
      const isBelow = turn.node.compareDocumentPosition(placeholder.node) & Node.DOCUMENT_POSITION_FOLLOWING;
      if (isBelow) placeholder.node.replaceWith(turn.node);
      else placeholder.node.remove();
    }
    return turn;
  }
  turn = placeholder ?? new TurnView();
  if (!turn.node.isConnected) $("log").append(turn.node);
  // Several messages sent in a row become one turn: its answer stands below the last of them.
  if (event.turn_id) {
    turn.node.dataset.turn = event.turn_id;
    page.turns.set(event.turn_id, turn);
    page.newest.turn = Math.max(page.newest.turn, event.turn_id);
  }
  return turn;
}

// Reads the events of one message until its turn is complete, over as many connections as that takes. `sent` is what can
// be sent again, or put back.
export async function follow(visit, address, response, placeholder, sent) {
  const turn = { view: placeholder ?? new TurnView(), isDone: false };
  if (!turn.view.node.isConnected) $("log").append(turn.view.node);
  page.running.add(address);
  refresh();
  for (let failures = 0; !turn.isDone && page.visit === visit; failures += 1) {
    try {
      response ??= await fetch(address);
      if (response.ok) {
        offline(false);
        sent?.hasArrived();
        await read(visit, response, turn, () => { failures = 0; });
      } else if (response.status === 404 && sent) {
        response = await sent.post();
        continue;
      } else if (response.status < 500) {
        return refused(visit, address, turn.view, await refusal(response), sent);
      }
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
    }
    response = null;
    if (turn.isDone || page.visit !== visit) break;
    offline(failures > 0);
    await pause(WAITS[Math.min(failures, WAITS.length - 1)]);
  }
  ended(visit, address);
}

async function read(visit, response, turn, heard) {
  for await (const event of events(response)) {
    if (page.visit !== visit) return;
    heard();
    if (event.name === "error") return;
    if (event.name === "user_message") continue;
    turn.view = turnOf(event, turn.view);
    turn.view.take(event);
    if (event.name === "message") {
      $("announcer").textContent = event.content;
      notify(page.chat, event.content);
    }
    if (event.name === "turn_complete") {
      turn.isDone = true;
      if (page.branch && turn.view.node.dataset.turn) showVersions(page.chat, turn.view);
      return;
    }
  }
}

function refused(visit, address, view, reason, sent) {
  view.node.remove();
  ended(visit, address);
  if (page.visit !== visit) return;
  if (sent) {
    sent.hasArrived();
    sent.node.remove();
    putBack(sent.content, sent.files);
  }
  $("log").append(faultLine(reason));
}

function ended(visit, address) {
  if (page.visit !== visit) return;
  offline(false);
  page.running.delete(address);
  refresh();
}
