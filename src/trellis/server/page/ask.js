// Questions to the server. A newer question of the same kind ends the older one, which then costs the server nothing.

import { t } from "./words.js";

const running = new Map();

export class Problem extends Error {}

export async function ask(path, body, kind = null) {
  running.get(kind)?.abort();
  const control = new AbortController();
  if (kind !== null) running.set(kind, control);
  let response, answer;
  try {
    response = await fetch(path, options(body, control.signal));
    answer = await response.json();
  } catch (error) {
    if (isOutdated(error)) throw error;
    throw new Problem(response ? `${t("strange")} (HTTP ${response.status})` : t("silent"));
  } finally {
    if (running.get(kind) === control) running.delete(kind);
  }
  if (response.ok) return answer;
  if (response.status === 401 && (await askKey())) return ask(path, body, kind);
  throw new Problem(answer.error.message);
}

export const isOutdated = (error) => error.name === "AbortError";

function options(body, signal) {
  const headers = {};
  const key = sessionStorage.getItem("key");
  if (key) headers.authorization = `Bearer ${key}`;
  if (body === undefined) return { headers, signal };
  headers["content-type"] = "application/json";
  return { method: "POST", headers, signal, body: JSON.stringify(body) };
}

// The key stays in this tab.
function askKey() {
  const dialog = document.getElementById("ask-key");
  const field = document.getElementById("key");
  field.value = "";
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("key", field.value);
      resolve(field.value !== "");
    }, { once: true });
  });
}
