// Corrections that are kept, learning from them, and the sentences that are worth labelling next.

import { ask } from "./ask.js";
import { t } from "./words.js";

const at = (id) => document.getElementById(id);
let teaches = false;
let timer = null;

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
  if (!teaches || !own) return;
  const body = { model, text: own.text, tokens: own.tokens, known_spans: own.known };
  progress(await ask("/v1/corrections", tags === null ? body : { ...body, tags }));
}

export async function nextSentence() {
  const found = await ask("/v1/next", {});
  progress(found);
  return found.text;
}

export async function learn(model) {
  follow(await ask("/v1/learn", { model }));
}

export async function decide(isAccepted) {
  follow(await ask(isAccepted ? "/v1/learn/accept" : "/v1/learn/reject", {}), t(isAccepted ? "accepted" : "rejected"));
}

function progress(found) {
  const parts = found.corrections === false ? [] : [t("saved", found.sentences)];
  if (found.total) parts.push(t("done", found.done, found.total));
  at("progress").textContent = parts.join(", ");
}

// Shows how far learning is until it ends, and then what came of it.
function follow(learner, verdict = "") {
  clearTimeout(timer);
  const isLearning = learner.state === "learning";
  at("learn").disabled = isLearning;
  at("outcome").hidden = learner.state !== "done";
  at("learning").textContent = isLearning ? t("learning", learner.model, learner.step) : learner.state === "failed" ? learner.message : verdict;
  if (isLearning) timer = setTimeout(look, 300);
  if (learner.state !== "done") return;
  at("scores").textContent = compared(learner);
  at("scores").className = learner.after > learner.before ? "better" : learner.after < learner.before ? "worse" : "";
  if (document.activeElement === document.body) at("accept").focus(); // it was at the button that started this
}

async function look() {
  try {
    follow((await ask("/v1/annotation")).learner);
  } catch (problem) {
    at("learning").textContent = problem.message;
    timer = setTimeout(look, 2000);
  }
}

// "english: F1 of held-out sentences 0.9012 before, 0.9150 after: better (+0.0138)"
function compared({ model, metric, before, after }) {
  if (metric === undefined) return `${model}: ${t("uncompared")}`;
  const difference = after - before;
  const sign = difference < 0 ? "−" : "+";
  const verdict = difference ? `▲▼`[difference < 0 ? 1 : 0] + ` ${t(difference > 0 ? "better" : "worse")} (${sign}${Math.abs(difference).toFixed(4)})` : t("equal");
  return `${model}: ${t(metric)} ${t("compared", before.toFixed(4), after.toFixed(4))} ${verdict}`;
}
