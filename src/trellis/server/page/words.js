// The words of the page in English and Chinese.

const WORDS = {
  en: {
    skip: "Skip to the result", model: "Model", dark: "Dark", light: "Light", text: "Text",
    hint: "Type or paste a text.", drop: "Or drop a file here.", file: "Open a file", result: "Result", undo: "Undo",
    select: "Select text and give it a label, or click a span.",
    keys: "Keys: ← → move, Shift with them selects, 1–9 label, Enter confirms, Delete removes, W says why, Space opens the menu, Ctrl+Z takes back.",
    complete: "All of this sentence is right", next: "Next sentence", learn: "Learn",
    accept: "Use the new model", reject: "Keep the old one", trellis: "The trellis of the sentence",
    best: "best labelling", second: "second best", doubtful: "less than 80 % sure", confirmed: "confirmed by you",
    paths: "The most probable labellings", why: "Why", key: "API key", send: "Send",
    confirm: "Confirm", remove: "Not a span", explain: "Why?", word: "word", probability: "probability",
    said: (text, label, probability) => `${text}: ${label}, probability ${probability}`,
    labels: "labels (below the best: where they differ)", what: "what", token: "at", forIt: "for", rather: "rather than",
    only: "no other label is possible here",
    same: "the same labels, on another way", empty: "There is no text yet.", choose: "Choose Why? in the menu of a token.",
    saved: (n) => `${n} ${n === 1 ? "sentence" : "sentences"} corrected`, done: (n, all) => `${n} of ${all} done`,
    learning: (model, step) => `${model} learns: step ${step}`,
    accepted: "The new model answers now.", rejected: "The old model stays.",
    f1: "F1 of spans in held-out sentences", accuracy: "accuracy on held-out sentences",
    compared: (before, after) => `${before} before, ${after} after:`, better: "better", worse: "worse", equal: "no better and no worse",
    uncompared: "it has learned; without held-out sentences (--dev) there is no score",
    tooLong: "Only the tokens around the chosen one are drawn.",
    tooLarge: (size, most) => `this text has ${size.toLocaleString("en")} bytes: expected at most ${most.toLocaleString("en")}`,
    binary: "this is not a text file in UTF-8", silent: "The server does not answer.", strange: "The server sent something else than JSON",
  },
  zh: {
    skip: "跳到结果", model: "模型", dark: "深色", light: "浅色", text: "文本",
    hint: "输入或粘贴文本。", drop: "也可以把文件拖到这里。", file: "打开文件", result: "结果", undo: "撤销",
    select: "选中文字并给它标签，或点击一个片段。",
    keys: "按键：← → 移动，加 Shift 选择，1–9 给标签，Enter 确认，Delete 删除，W 说明理由，空格打开菜单，Ctrl+Z 撤销。",
    complete: "这一句全部正确", next: "下一句", learn: "学习",
    accept: "使用新模型", reject: "保留旧模型", trellis: "这一句的网格图",
    best: "最可能的标注", second: "第二可能的标注", doubtful: "把握不到 80 %", confirmed: "你确认过",
    paths: "最可能的标注", why: "理由", key: "API 密钥", send: "发送",
    confirm: "确认", remove: "不是片段", explain: "为什么？", word: "词", probability: "概率",
    said: (text, label, probability) => `${text}：${label}，概率 ${probability}`,
    labels: "标签（第一行以下只列出不同之处）", what: "因素", token: "位置", forIt: "作用", rather: "而不是",
    only: "这里没有别的标签可选",
    same: "标签相同，路径不同", empty: "还没有文本。", choose: "在一个词的菜单里选“为什么？”。",
    saved: (n) => `已更正 ${n} 句`, done: (n, all) => `已完成 ${n} / ${all}`,
    learning: (model, step) => `${model} 正在学习：第 ${step} 步`,
    accepted: "现在由新模型回答。", rejected: "仍用旧模型。",
    f1: "留出句子上片段的 F1", accuracy: "留出句子上的准确率",
    compared: (before, after) => `学习前 ${before}，学习后 ${after}：`, better: "更好", worse: "更差", equal: "没有变化",
    uncompared: "学习完成；没有留出的句子（--dev），所以没有得分",
    tooLong: "只画出所选词附近的部分。",
    tooLarge: (size, most) => `这段文本有 ${size.toLocaleString("en")} 字节：最多 ${most.toLocaleString("en")} 字节`,
    binary: "这不是 UTF-8 编码的文本文件", silent: "服务器没有回答。", strange: "服务器的回答不是 JSON",
  },
};

let language = localStorage.getItem("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");

// The words for something, with these numbers and names in them.
export function t(name, ...values) {
  const words = WORDS[language][name];
  return typeof words === "function" ? words(...values) : words;
}

export function translate() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-i18n]")) element.textContent = t(element.dataset.i18n);
  const button = document.getElementById("language");
  [button.textContent, button.lang] = language === "en" ? ["中文", "zh"] : ["English", "en"];
}

export function otherLanguage() {
  language = language === "en" ? "zh" : "en";
  localStorage.setItem("language", language);
  translate();
}
