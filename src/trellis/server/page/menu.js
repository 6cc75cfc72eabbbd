// The menu at a span or a selection: labels, confirm, remove, why.

import { dot, element } from "./show.js";
import { t } from "./words.js";

const menu = document.getElementById("menu");

export const hideMenu = () => { menu.hidden = true; };
export const menuIsOpen = () => !menu.hidden;
export const focusMenu = () => menu.querySelector("button").focus();

export function showMenu(box, hues, entries) {
  const items = [...hues].map(([kind, hue], i) => item(() => entries.label(kind), i < 9 ? String(i + 1) : "", dot(hue), kind || t("word")));
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
  const made = element("button", { type: "button", dataset: { key: key.toLowerCase() } }, ...content, element("kbd", {}, key));
  made.setAttribute("role", "menuitem");
  made.addEventListener("click", () => { leave(); action(); });
  return made;
}

menu.addEventListener("keydown", (event) => {
  const items = [...menu.querySelectorAll("button")];
  const here = items.indexOf(document.activeElement);
  const next = { ArrowDown: (here + 1) % items.length, ArrowUp: (here + items.length - 1) % items.length, Home: 0, End: items.length - 1 }[event.key];
  const key = event.key === "Backspace" ? "delete" : event.key.toLowerCase();
  if (next !== undefined) items[next].focus();
  else if (event.key === "Escape" || event.key === "Tab") leave();
  else if (key !== "enter" && items.some((one) => one.dataset.key === key)) items.find((one) => one.dataset.key === key).click();
  else return;
  event.preventDefault();
});
