// Server-sent events out of a fetch response: EventSource can neither POST nor tell a refusal from a lost connection.

import { offline } from "./frame.js";
import { fill, texts } from "./texts.js";

// How long is waited before each further attempt, in milliseconds.
export const WAITS = [500, 1000, 2000, 4000, 8000, 15000];

export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const event = parse(frame);
      if (event) yield event;
    }
  }
}

function parse(frame) {
  let name = "message";
  const lines = [];
  for (const line of frame.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) lines.push(line.slice(6));
  }
  return lines.length ? { ...JSON.parse(lines.join("\n")), name } : null;
}

// What the server said in words when it refused.
export async function refusal(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return fill(texts.status_of_server, { status: response.status });
  }
}

// Returns why the server refused, null when it did not.
export async function sendJson(address, method, body) {
  try {
    const response = await fetch(address, { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
    return response.ok ? null : await refusal(response);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return texts.unreachable;
  }
}

export const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

export function newId() {
  // crypto.randomUUID is missing where the page is served without TLS to another machine.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Asks until there is an answer.
export async function fetchSurely(address) {
  for (let failures = 0; ; failures += 1) {
    try {
      const response = await fetch(address);
      if (response.status < 500) {
        offline(false);
        return response;
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    offline(true);
    await pause(WAITS[Math.min(failures, WAITS.length - 1)]);
  }
}
