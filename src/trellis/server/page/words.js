// The words of the page in English and Chinese.

const WORDS = {
  en: {
    skip: "Skip to the result", model: "Model", theme: "Light or dark", docs: "Interface", text: "Text",
    hint: "Type or paste a text, or drop a file here.", result: "Result", undo: "Undo (Ctrl+Z)", file: "Open a file:",
    keys: "Select text and give it a label, or click a span. Keys: ← → move, Shift with them selects, 1–9 label, Enter confirms, Delete removes, W says why, Space opens the menu, Ctrl+Z takes back.",
    complete: "All of this sentence is right", next: "Next sentence", learn: "Learn",
    accept: "Use the new model", reject: "Keep the old one", trellis: "The trellis of the sentence",
    paths: "The most probable labellings", why: "Why", key: "API key", send: "Send",
    confirm: "Confirm", remove: "Not a span", explain: "Why?", word: "word", probability: "probability",
    labels: "labels (below the best: where they differ)", what: "what", forIt: "for", rather: "rather than",
    same: "the same labels, on another way", empty: "There is no text yet.", choose: "Choose a token to see why it got its label.",
    saved: "sentences corrected", learning: "Learning", before: "Score on held-out sentences before", after: "after",
    done: "done", of: "of", tooLong: "Only the tokens around the chosen one are drawn.",
  },
  zh: {
    skip: "跳到结果", model: "模型", theme: "浅色或深色", docs: "接口", text: "文本",
    hint: "输入或粘贴文本，也可以把文件拖到这里。", result: "结果", undo: "撤销 (Ctrl+Z)", file: "打开文件：",
    keys: "选中文字并给它标签，或点击一个片段。按键：← → 移动，加 Shift 选择，1–9 给标签，Enter 确认，Delete 删除，W 说明理由，空格打开菜单，Ctrl+Z 撤销。",
    complete: "这一句全部正确", next: "下一句", learn: "学习",
    accept: "使用新模型", reject: "保留旧模型", trellis: "这一句的网格图",
    paths: "最可能的标注", why: "理由", key: "API 密钥", send: "发送",
    confirm: "确认", remove: "不是片段", explain: "为什么？", word: "词", probability: "概率",
    labels: "标签（第一行以下只列出不同之处）", what: "因素", forIt: "作用", rather: "而不是",
    same: "标签相同，路径不同", empty: "还没有文本。", choose: "选择一个词，看它为什么得到这个标签。",
    saved: "句已更正", learning: "正在学习", before: "留出句子上的得分：学习前", after: "学习后",
    done: "已完成", of: "/", tooLong: "只画出所选词附近的部分。",
  },
};

let language = localStorage.getItem("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");

export const t = (name) => WORDS[language][name];

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
