// A tagger in the browser: text to ids by the vocabulary of model.json, ids to labels by model.onnx.
// onnxruntime-web is not part of Trellis; its files lie beside this one (npm install onnxruntime-web).

const FIRST = 2; // 0 is padding, 1 unknown
const byId = (id) => document.getElementById(id);

function numbered(names) {
  return new Map(names.map((name, i) => [name, FIRST + i]));
}

// One character for one, as trellis.text.fold_width does it.
function folded(text) {
  return text.replace(/[\uff01-\uffee]/g, (c) => {
    const usual = c.normalize("NFKC");
    return [...usual].length === 1 ? usual : c;
  });
}

export class Feeder {
  constructor(description) {
    const { words, vectors, characters, pairs, lower } = description.vocabulary;
    this.inputs = description.inputs;
    this.lower = lower;
    this.fold = description.settings.fold_width;
    this.ids = Object.fromEntries(
      Object.entries({ words, vectors, characters, pairs }).map(([name, own]) => [name, numbered(own)]),
    );
    // Every word of a segmenter is one character.
    this.byCharacter = words.length > 0 && words.every((word) => [...word].length === 1);
  }

  tokens(text) {
    return this.byCharacter ? [...text.replace(/\s/g, "")] : text.split(/\s+/).filter(Boolean);
  }

  // The ids of one sentence by input: numbers, and the shape they have.
  feeds(tokens) {
    const words = this.fold ? tokens.map(folded) : tokens;
    const T = words.length;
    const table = {
      mask: () => [words.map(() => 1), [1, T]],
      word: () => [words.map((word) => this.#id("words", this.lower ? word.toLowerCase() : word)), [1, T]],
      vector: () => [words.map((word) => this.#vector(word)), [1, T]],
      characters: () => this.#characters(words),
      pairs: () => [words.flatMap((word, t) => this.#pairs(words, word, t)), [1, T, 2]],
    };
    return Object.fromEntries(this.inputs.map((name) => [name, table[name]()]));
  }

  #id(kind, name) {
    return this.ids[kind].get(name) ?? 1;
  }

  #vector(word) {
    return this.ids.vectors.get(word) ?? this.ids.vectors.get(word.toLowerCase()) ?? 0;
  }

  #pairs(words, word, t) {
    const [left, right] = [words[t - 1] ?? "", words[t + 1] ?? ""];
    return [this.#id("pairs", `${left} ${word}`), this.#id("pairs", `${word} ${right}`)];
  }

  #characters(words) {
    const spelt = words.map((word) => [...word].map((c) => this.#id("characters", c)));
    const C = Math.max(1, ...spelt.map((ids) => ids.length));
    const padded = spelt.flatMap((ids) => [...ids, ...Array(C - ids.length).fill(0)]);
    return [padded, [1, words.length, C]];
  }
}

const FORMAT = 1; // of model.json

function tensor(ort, name, [numbers, shape]) {
  if (name === "mask") return new ort.Tensor("bool", Uint8Array.from(numbers), shape);
  return new ort.Tensor("int64", BigInt64Array.from(numbers, BigInt), shape);
}

async function open() {
  const ort = await import("./ort.wasm.bundle.min.mjs").catch(() => {
    throw new Error("onnxruntime-web is missing: npm install onnxruntime-web, then trellis export --web DIR --runtime FOLDER");
  });
  ort.env.wasm.numThreads = 1; // more need headers that plain file servers do not send
  const description = await (await fetch("model.json")).json();
  if (description.format > FORMAT) {
    throw new Error(`model.json has format ${description.format}, this page reads format ${FORMAT}: a newer version of Trellis wrote it`);
  }
  return { ort, description, session: await ort.InferenceSession.create("model.onnx") };
}

async function answer({ ort, description, session }, feeder, text) {
  const tokens = feeder.tokens(text);
  if (!tokens.length) return { tokens, labels: [], probabilities: [], probability: 1 };
  const given = Object.entries(feeder.feeds(tokens)).map(([name, own]) => [name, tensor(ort, name, own)]);
  const found = await session.run(Object.fromEntries(given));
  const places = [...found.labels.data].map(Number);
  const L = description.labels.length;
  return {
    tokens,
    labels: places.map((i) => description.labels[i]),
    probabilities: places.map((i, t) => found.marginals.data[t * L + i]),
    probability: found.probability.data[0],
  };
}

function show({ tokens, labels, probabilities, probability }) {
  const parts = tokens.flatMap((token, t) => {
    const span = document.createElement("span");
    span.textContent = token;
    span.dataset.label = labels[t];
    span.dataset.probability = probabilities[t];
    if (labels[t] !== "O") {
      span.className = "named";
      const small = document.createElement("small");
      small.textContent = `${labels[t]} ${(100 * probabilities[t]).toFixed(0)} %`;
      span.append(small);
    }
    return [span, " "];
  });
  byId("answer").replaceChildren(...parts);
  byId("state").textContent = `Probability of all these labels together: ${(100 * probability).toFixed(1)} %`;
}

async function start() {
  const model = await open();
  const feeder = new Feeder(model.description);
  const split = feeder.byCharacter ? "Text; each character is a token:" : "Text, with blanks between tokens:";
  byId("hint").textContent = split;
  let last = Promise.resolve();
  const update = () => {
    last = last.then(async () => show(await answer(model, feeder, byId("text").value)));
  };
  byId("text").addEventListener("input", update);
  byId("state").textContent = "Ready.";
  update();
}

start().catch((error) => {
  byId("state").textContent = `This does not work here: ${error.message}`;
});
