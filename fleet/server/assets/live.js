// Keeps the main part of a page fresh while the server says that something changed. Every page works without this.
"use strict";
(() => {
  const main = document.querySelector("main[data-live]");
  if (!main || !window.EventSource) return;
  const said = document.getElementById("live");
  let isBusy = false, isDue = false;

  // Somebody who fills in a form keeps it, and a button stays under the finger.
  let isPressed = false;
  addEventListener("pointerdown", () => { isPressed = true; });
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { isPressed = false; });
  const isInUse = () => isPressed ||
    (main.contains(document.activeElement) && /^(INPUT|SELECT)$/.test(document.activeElement.tagName));

  async function refresh() {
    if (isBusy) { isDue = true; return; }
    if (isInUse()) return;
    isBusy = true;
    isDue = false;
    try {
      const answer = await fetch(location.href, { headers: { "x-live": "1" }, credentials: "same-origin" });
      if (answer.redirected) { location.reload(); return; }
      if (answer.ok && !isInUse()) show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      // The next event tries again; the footer says of when the page is.
    } finally {
      isBusy = false;
      if (isDue) refresh();
    }
  }

  function show(fresh) {
    document.querySelector("footer time").textContent = fresh.querySelector("footer time").textContent;
    if (fresh.querySelector("main").innerHTML === main.innerHTML) return;
    const focusable = "a[href], button, summary, [tabindex]";
    const at = [...main.querySelectorAll(focusable)].indexOf(document.activeElement);
    const scrolled = [...main.querySelectorAll(".wide")].map((part) => part.scrollLeft);
    const open = [...main.querySelectorAll("details")].map((part) => part.open);
    main.replaceChildren(...fresh.querySelector("main").childNodes);
    main.querySelectorAll(".wide").forEach((part, index) => { part.scrollLeft = scrolled[index] || 0; });
    main.querySelectorAll("details").forEach((part, index) => { part.open = open[index] || false; });
    if (at >= 0) main.querySelectorAll(focusable)[at]?.focus({ preventScroll: true });
  }

  const events = new EventSource("/events");
  events.addEventListener("changed", refresh);
  events.addEventListener("ended", () => { events.close(); location.reload(); });
  events.onopen = () => { said.hidden = false; };
  events.onerror = () => { said.hidden = true; };
})();
