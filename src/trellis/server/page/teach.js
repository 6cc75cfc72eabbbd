// Corrections that are kept, learning from them, and the sentences that are worth labelling next.

import { ask } from "./ask.js";
import { t } from "./words.js";

const at = (id) => document.getElementById(id);
let teaches = false;

// What this server offers besides answering: nothing, unless it was started to collect corrections.
export async function offers() {
  try {
    const found = await ask("/v1/annotation");
    teaches = found.corrections;
    at("learn").hidden = !found.learning;
    at("next").hidden = !found.pool;
    progress(found);
    follow(found.learner);
    return found;
  } catch {
    return { corrections: false, pool: false };
  }
}

export async function keep(model, own, tags = null) {
  if (!teaches) return;
  const body = { model, text: own.text, tokens: own.tokens, known_spans: own.known };
  progress(await ask("/v1/corrections", tags === null ? body : { ...body, tags }));
}

export async function nextSentence() {
  const found = await ask("/v1/next", {});
  progress(found);
  return found.text;
}

export async function learn() {
  follow(await ask("/v1/learn", {}));
}

export async function decide(isAccepted) {
  const found = await ask(isAccepted ? "/v1/learn/accept" : "/v1/learn/reject", {});
  follow(found);
  return found;
}

function progress(found) {
  const parts = [`${found.sentences} ${t("saved")}`];
  if (found.total) parts.push(`${found.done} ${t("of")} ${found.total} ${t("done")}`);
  at("progress").textContent = found.corrections === false ? "" : parts.join(", ");
}

// Shows how far learning is until it ends.
function follow(learner) {
  if (!learner) return;
  const isLearning = learner.state === "learning";
  at("learn").disabled = isLearning;
  at("outcome").hidden = learner.state !== "done";
  if (isLearning) {
    at("progress").textContent = `${t("learning")}: ${learner.step}`;
    setTimeout(async () => follow((await ask("/v1/annotation")).learner), 300);
  } else if (learner.state === "done") {
    at("progress").textContent = "";
    at("scores").textContent = `${t("before")} ${learner.before.toFixed(4)}, ${t("after")} ${learner.after.toFixed(4)}`;
    at("accept").focus();
  } else if (learner.state === "failed") {
    at("progress").textContent = learner.message;
  }
}
