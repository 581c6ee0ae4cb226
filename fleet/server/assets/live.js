// Keeps the main part of a page fresh while the server says that something changed. Every page works without this.
"use strict";
(() => {
  // Times stand there as how long ago, and in UTC: for the reader the hour of his own clock is put between.
  function localise(part) {
    for (const time of part.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      time.title = at.toLocaleString();
      if (at.getTimezoneOffset() === 0) continue;
      const isNear = Math.abs(Date.now() - at) < 12 * 3600e3;
      const day = isNear ? {} : { month: "short", day: "numeric" };
      time.textContent += ", " + at.toLocaleString([], { ...day, hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
    }
  }
  let shown = document.querySelector("main").innerHTML;
  localise(document);

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

  // The place stays and its text changes: a screen reader says it then, and only then.
  function say(fresh, title) {
    const summary = document.getElementById("summary");
    document.title = title;
    if (!summary || !fresh) return;
    const [old, now] = [summary, fresh].map((part) => part.querySelector("[role=status]"));
    summary.className = fresh.className;
    if (old.textContent !== now.textContent) old.textContent = now.textContent;
  }

  function show(fresh) {
    document.querySelector("footer time").textContent = fresh.querySelector("footer time").textContent;
    say(fresh.getElementById("summary"), fresh.title);
    const html = fresh.querySelector("main").innerHTML;
    if (html === shown) return;
    shown = html;
    localise(fresh);
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
