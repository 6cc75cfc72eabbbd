// The best labellings and the reasons for a label, as tables.

import { element } from "./show.js";
import { t } from "./words.js";

function table(heads, rows) {
  const head = element("tr", {}, ...heads.map(([text, figure]) => element("th", { className: figure ? "figure" : "", scope: "col" }, text)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

export function pathTable(answer) {
  const best = answer.paths[0]?.tags ?? [];
  const rows = answer.paths.map((path, rank) => {
    const differs = path.tags.flatMap((tag, i) => (tag === best[i] ? [] : [`${answer.tokens[i]}/${tag}`]));
    const shown = rank === 0 ? spansInWords(answer) : differs.join("  ") || t("same");
    return element("tr", {}, element("td", { className: "figure" }, path.probability.toFixed(4)), element("td", { dir: "auto" }, shown));
  });
  return table([[t("probability"), true], [t("labels"), false]], rows);
}

// At most a few hundred labels, so that a long sentence does not make a long table.
const spansInWords = (answer) => answer.paths[0].tags.slice(0, 300).map((tag, i) => `${answer.tokens[i]}/${tag}`).join("  ");

export function whyTable(tokens, reason) {
  const title = `${tokens[reason.position]}: ${reason.label} (${reason.probability.toFixed(3)}) ${t("rather")} ${reason.runner_up} (${reason.runner_up_probability.toFixed(3)})`;
  const rows = reason.contributions.map((one) => element("tr", {},
    element("td", {}, element("code", {}, one.name)),
    element("td", {}, tokens[one.position] ?? ""),
    element("td", { className: `figure ${one.difference >= 0 ? "for" : "against"}` }, `${one.difference >= 0 ? "+" : "−"}${Math.abs(one.difference).toFixed(3)}`),
  ));
  return [element("p", { dir: "auto" }, title), table([[t("what"), false], ["", false], [t("forIt"), true]], rows)];
}
