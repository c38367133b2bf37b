// Keys, and what a page without a script can do without. Screens say what there is by data-* attributes.
"use strict";

(() => {
  const typing = (element) => element.closest("input, textarea, select, [contenteditable]");
  const items = () => [...document.querySelectorAll("[data-item]")];
  let going = false; // `g` was pressed: the next key is the screen's, whatever else it may mean
  const single = () => window.localStorage.getItem("keys") !== "off";

  // What somebody is typing is theirs, whatever the region around it becomes.
  if (window.Idiomorph) window.Idiomorph.defaults.ignoreActiveValue = true;

  function step(by) {
    const all = items();
    if (!all.length) return;
    const at = all.indexOf(document.activeElement.closest("[data-item]"));
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
    const links = "a, button, input";
    const inside = next.matches(links) ? next : (next.querySelector("[data-main]") ?? next.querySelector(links));
    if (!inside) next.tabIndex = -1;
    (inside ?? next).focus();
    next.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (typing(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const dialog = document.querySelector("dialog[open]");
    if (dialog) return;
    const key = event.key;
    if (key !== "?" && !single()) return;
    if (going) {
      going = false;
      const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
      if (link) {
        event.preventDefault();
        link.click();
      }
      return;
    }
    if (key === "g") going = true;
    else if (key === "j") step(1);
    else if (key === "k") step(-1);
    else if (key === "?") document.getElementById("keys").showModal();
    else {
      const wanted = `[data-key="${CSS.escape(key)}"]`;
      const item = document.activeElement.closest("[data-item]");
      const element = item?.querySelector(wanted) ?? document.querySelector(wanted);
      if (!element || element.disabled) return;
      event.preventDefault();
      if (element.matches("input:not([type=checkbox]), textarea, select")) element.focus();
      else element.click();
    }
  });

  const keys = document.getElementById("keys-on");
  keys.checked = single();
  keys.addEventListener("change", () => window.localStorage.setItem("keys", keys.checked ? "on" : "off"));

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submits]")) event.target.form.submit();
  });

  // A confirmation in words, before a form that has one goes out; one that takes its time says so, and goes out once.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const asked = form.getAttribute("data-confirm");
    if (form.ariaBusy === "true" || (asked && !window.confirm(asked))) event.preventDefault();
    else if (form.matches("[data-slow]")) form.ariaBusy = "true";
  });
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("[data-slow]").forEach((form) => form.removeAttribute("aria-busy"));
  });

  // What opens in place, by a link with data-opens: once more closes it. Live parts around it leave it as it is.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const { elt, target } = event.detail;
    if (!elt.matches("[data-opens]")) return;
    const open = target.hasChildNodes();
    elt.setAttribute("aria-expanded", String(!open));
    if (!open) return;
    event.preventDefault();
    target.replaceChildren();
  });
  const callbacks = window.Idiomorph?.defaults.callbacks;
  if (callbacks) {
    const kept = (node) => node?.matches?.("[data-kept]:not(:empty), :has(> [data-kept]:not(:empty))");
    callbacks.beforeNodeMorphed = (old) => !(old.dataset && "kept" in old.dataset && old.hasChildNodes());
    callbacks.beforeNodeRemoved = (old) => !kept(old) && !kept(old.nextElementSibling);
    // What a form says was shown stays what was shown when the page was loaded.
    callbacks.beforeAttributeUpdated = (name, node) =>
      name !== "aria-expanded" && name !== "open" && !(name === "value" && node.matches("[data-shown]"));
  }

  document.addEventListener("htmx:sseClose", (event) => {
    if (event.detail.type === "message") document.getElementById("ended").hidden = false;
  });
  document.addEventListener("htmx:sseMessage", () => {
    document.documentElement.dataset.messages = Number(document.documentElement.dataset.messages ?? 0) + 1;
  });
})();
