// The best labellings and the reasons for a label, as tables.

import { element } from "./show.js";
import { t } from "./words.js";

const MOST = 300; // labels of a row, so that a long sentence does not make a long table

function table(heads, rows) {
  const head = element("tr", {}, ...heads.map(([text, figure]) => element("th", { className: figure ? "figure" : "", scope: "col" }, text)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

export function pathTable(answer) {
  const best = answer.paths[0]?.tags ?? [];
  const rows = answer.paths.map((path, rank) => {
    const places = path.tags.map((_, i) => i).filter((i) => rank === 0 || path.tags[i] !== best[i]);
    const shown = places.slice(0, MOST).flatMap((i) => labelled(answer.tokens[i], path.tags[i]));
    return element("tr", {}, element("td", { className: "figure" }, path.probability.toFixed(4)), element("td", {}, ...(shown.length ? shown : [t("same")])));
  });
  return table([[t("probability"), true], [t("labels"), false]], rows);
}

// A token and its label; words that run from right to left do not move the labels beside them.
const labelled = (token, tag) => [element("bdi", {}, token), `/${tag}  `];

export function whyTable(tokens, reason) {
  if (!reason.runner_up) return [`${tokens[reason.position]}: ${reason.label}, ${t("only")}`];
  const title = `${tokens[reason.position]}: ${reason.label} (${reason.probability.toFixed(3)}) ${t("rather")} ${reason.runner_up} (${reason.runner_up_probability.toFixed(3)})`;
  const rows = reason.contributions.map((one) => element("tr", {},
    element("td", { title: one.name }, one.words),
    element("td", {}, tokens[one.position] ?? ""),
    element("td", { className: `figure ${one.difference >= 0 ? "for" : "against"}` }, `${one.difference >= 0 ? "+" : "−"}${Math.abs(one.difference).toFixed(3)}`),
  ));
  return [element("p", { dir: "auto" }, title), table([[t("what"), false], [t("token"), false], [t("forIt"), true]], rows)];
}
