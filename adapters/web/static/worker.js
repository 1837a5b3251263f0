// Keeps the few static files that are shown when there is no network. What people say, and whatever the server answers
// else, is neither kept nor looked at.

const CACHE = "parley-static-VERSION_OF_FILES";
const FILES = ["FILES"];
const OFFLINE = "/static/offline.html";

addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES.map((file) => new Request(file, { cache: "no-cache" })))).then(() => skipWaiting()));
});

addEventListener("activate", (event) => {
  const forget = async () => {
    for (const name of await caches.keys()) if (name.startsWith("parley-static-") && name !== CACHE) await caches.delete(name);
    await clients.claim();
  };
  event.waitUntil(forget());
});

addEventListener("fetch", (event) => {
  const { request } = event;
  const address = new URL(request.url);
  if (request.method !== "GET" || address.origin !== location.origin) return;
  const isPage = request.mode === "navigate" && address.pathname === "/";
  if (!isPage && !FILES.includes(address.pathname)) return;
  // The network first: nobody is shown a page of yesterday.
  event.respondWith(fetch(request).catch(() => caches.match(isPage ? OFFLINE : address.pathname)));
});
