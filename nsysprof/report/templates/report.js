"use strict";
// Theme, table filters, and figures on a phone. Sorting is vendor/sortable.js.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const tell = () => dispatchEvent(new CustomEvent("theme"));
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tell();
  });
  dark.addEventListener("change", tell);

  // On a phone a figure fits the page; a touch shows it larger, to be moved.
  for (const figure of document.querySelectorAll("figure.scroll-x")) {
    const enlarge = () => figure.classList.toggle("large");
    figure.addEventListener("click", enlarge);
    figure.addEventListener("keydown", (event) => { if (event.key === "Enter") enlarge(); });
  }

  for (const field of document.querySelectorAll("input[data-filter]")) {
    const told = field.closest("p").querySelector("[role=status]");
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      const rows = document.getElementById(field.dataset.filter).tBodies[0].rows;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !wanted.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      told.textContent = wanted.length ? `${shown} of ${rows.length}` : "";
    });
  }
})();
