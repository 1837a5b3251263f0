// The page as an app: its theme, what it tells while nobody looks at it, and the worker that has its files when offline.

const $ = (id) => document.getElementById(id);
const THEME = "parley.theme";
const NOTIFY = "parley.notify";
// A tab holds this lock while it is seen; the browser takes it back from one that goes.
const SEEN = "parley.seen";
// What a hidden tab asks there, in milliseconds: one that hangs holds its lock, and answers nothing.
const ANSWER_WAIT = 5000;
const WORKER = "/sw.js";
// The worker reads its files when the page has long been drawn.
const WORKER_WAIT = 5000;
const SHOWN_CHARS = 140;

$("theme").value = localStorage.getItem(THEME) ?? "";
$("theme").addEventListener("change", () => {
  if ($("theme").value) localStorage.setItem(THEME, $("theme").value);
  else localStorage.removeItem(THEME);
  document.documentElement.dataset.theme = $("theme").value;
});

const isAllowed = () => "Notification" in window && Notification.permission === "granted";

// Whether the person wants to be told of what arrives while the page is hidden.
export const notifies = () => isAllowed() && localStorage.getItem(NOTIFY) === "1";

function draw() {
  $("notify").hidden = !("Notification" in window) || Notification.permission === "denied";
  $("notify").setAttribute("aria-pressed", String(notifies()));
}

$("notify").addEventListener("click", async () => {
  if (notifies()) localStorage.removeItem(NOTIFY);
  else if (isAllowed() || (await Notification.requestPermission()) === "granted") localStorage.setItem(NOTIFY, "1");
  draw();
});
draw();

const untilHidden = () => new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));

function holdWhileSeen() {
  // No promise, no lock: the tab may be hidden again by the time it is granted. Some browsers refuse it to a private tab.
  const hold = () => document.hidden ? null : untilHidden();
  if (!document.hidden) navigator.locks?.request(SEEN, { mode: "shared" }, hold).catch(() => {});
}

document.addEventListener("visibilitychange", holdWhileSeen);
holdWhileSeen();

const tabs = new BroadcastChannel(SEEN);
tabs.addEventListener("message", ({ data }) => { if (data === "?" && !document.hidden) tabs.postMessage("!"); });

const hearsATab = () => new Promise((resolve) => {
  const hear = ({ data }) => { if (data === "!") resolve(true); };
  tabs.addEventListener("message", hear);
  setTimeout(() => { tabs.removeEventListener("message", hear); resolve(false); }, ANSWER_WAIT);
  tabs.postMessage("?");
});

// Who looks at another tab of the page sees there what has arrived.
async function isSeen() {
  const locks = await navigator.locks?.query().catch(() => null);
  return (locks?.held.some(({ name }) => name === SEEN) ?? false) && hearsATab();
}

export async function notify(chat, text) {
  // While the others are asked, the person may come back to this tab.
  if (!document.hidden || !notifies() || !text.trim() || (await isSeen()) || !document.hidden) return;
  const notice = new Notification("Parley", { body: text.trim().slice(0, SHOWN_CHARS), tag: chat, icon: "/static/icon-192.png" });
  notice.addEventListener("click", () => { window.focus(); location.hash = chat; notice.close(); });
}

function toWorkerAddress() {
  // No other script may ever become a worker of this page.
  const policy = window.trustedTypes?.createPolicy("parley", { createScriptURL: () => WORKER });
  return policy ? policy.createScriptURL("") : WORKER;
}

if ("serviceWorker" in navigator) {
  setTimeout(() => navigator.serviceWorker.register(toWorkerAddress()).catch(() => {}), WORKER_WAIT);
}
