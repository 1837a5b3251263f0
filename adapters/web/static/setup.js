// Waits until Parley has started again with its model, and goes on to the chat.

async function hasModel() {
  try {
    const response = await fetch("/page/state");
    return response.ok && (await response.json()).has_model;
  } catch {
    return false;
  }
}

async function wait() {
  if (!document.querySelector("#starts-again")) return;
  while (!(await hasModel())) await new Promise((resolve) => { setTimeout(resolve, 1000); });
  location.assign("/");
}

document.addEventListener("htmx:after:swap", wait);
