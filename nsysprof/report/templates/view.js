"use strict";
// Follows work on the server, and hands a trace to Perfetto's UI in another window.
(() => {
  document.documentElement.classList.add("js");
  const poll = document.body.dataset.poll;
  const seconds = 0.4;
  const began = document.body.dataset.over;

  const follow = async () => {
    let now;
    try {
      now = await (await fetch(poll)).json();
    } catch {
      document.getElementById("told").textContent = "nsysprof view has ended.";
      return;
    }
    if (now.isOver || (began !== undefined && began !== "" && String(now.over) !== began)) {
      location.reload();
      return;
    }
    for (const [key, step] of Object.entries(now.steps)) {
      const place = document.querySelector(`[data-step="${CSS.escape(key)}"]`);
      if (place) place.textContent = step;
    }
    setTimeout(follow, seconds * 1000);
  };
  if (poll) setTimeout(follow, seconds * 1000);

  // Perfetto's UI wants the whole address, and only the browser knows through which port it came.
  const link = document.getElementById("to-ui");
  if (link) {
    link.hash = `!/?url=${encodeURIComponent(new URL(link.dataset.trace, location.href))}`;
    location.replace(link.href);
  }

  // As https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui says: ask until the page answers, then post.
  const button = document.getElementById("to-perfetto");
  if (button) {
    const told = document.getElementById("told");
    const there = button.dataset.ui;
    button.addEventListener("click", async () => {
      const page = window.open(there);
      if (!page) {
        told.textContent = "The browser did not open a window: allow this page to.";
        return;
      }
      told.textContent = "Waiting for Perfetto's UI.";
      const buffer = await (await fetch(button.dataset.trace)).arrayBuffer();
      const asking = setInterval(() => page.postMessage("PING", there), 100);
      const answered = (event) => {
        if (event.origin !== there || event.data !== "PONG") return;
        clearInterval(asking);
        removeEventListener("message", answered);
        page.postMessage({ perfetto: { buffer, title: button.dataset.title, keepApiOpen: false } }, there);
        told.textContent = "The trace is in the other window.";
      };
      addEventListener("message", answered);
    });
  }
})();
