// The menu at a span or a selection: labels, confirm, remove, why.

import { element, hue } from "./show.js";
import { t } from "./words.js";

const menu = document.getElementById("menu");

export const hideMenu = () => { menu.hidden = true; };
export const menuIsOpen = () => !menu.hidden;

export function showMenu(box, kinds, entries) {
  const items = kinds.map((kind, i) => {
    const dot = element("span", { className: "dot" });
    dot.style.setProperty("--hue", hue(kinds, kind));
    return item(() => entries.label(kind), i < 9 ? String(i + 1) : "", dot, kind || t("word"));
  });
  if (entries.confirm) items.unshift(item(entries.confirm, "Enter", t("confirm")));
  if (entries.remove) items.push(item(entries.remove, "Delete", t("remove")));
  items.push(item(entries.why, "W", t("explain")));
  menu.replaceChildren(...items);
  menu.hidden = false;
  const { innerWidth, innerHeight } = window;
  menu.style.left = `${Math.max(4, Math.min(box.left, innerWidth - menu.offsetWidth - 4))}px`;
  const below = box.bottom + 6;
  menu.style.top = `${below + menu.offsetHeight < innerHeight ? below : Math.max(4, box.top - menu.offsetHeight - 6)}px`;
}

// Keys go on where they came from.
function leave() {
  hideMenu();
  document.getElementById("result").focus({ preventScroll: true });
}

function item(action, key, ...content) {
  const made = element("button", { type: "button", role: "menuitem" }, ...content, element("kbd", {}, key));
  made.setAttribute("role", "menuitem");
  made.addEventListener("click", () => { leave(); action(); });
  return made;
}

menu.addEventListener("keydown", (event) => {
  const items = [...menu.querySelectorAll("button")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") leave();
  if (step === undefined) return;
  event.preventDefault();
  items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
});
