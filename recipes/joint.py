"""Words with tags: one model over labels such as B-NOUN, against a segmenter and a tagger one after another.

python recipes/joint.py train.conllu dev.conllu test.conllu [SETTING=VALUE ...]     # settings of the feature CRF

Both learn from the same sentences, and both get the text of the others without its spaces.
"""

import sys
import time

from trellis import config, corpus, metrics
from trellis.corpus import sentence_from_words, to_characters
from trellis.models import CRF, CRFConfig, Pipeline
from trellis.text import Sentence

TaggedWords = list[list[tuple[str, str]]]


def pairs(sentences: list[Sentence]) -> TaggedWords:
    """The words with their tags."""
    return [list(zip(sentence.tokens, sentence.tags or (), strict=True)) for sentence in sentences]


def learned(features: str, scheme: str, parts: list[list[Sentence]], assignments: list[str]) -> CRF:
    """A feature CRF that learned from the first part and stopped by the second, with the time it took."""
    settings = config.override(CRFConfig(features=features, scheme=scheme), assignments)
    start = time.perf_counter()
    model = CRF(settings).fit(parts[0], dev=parts[1])
    sys.stderr.write(f"{features} {scheme}: {len(model.labels_)} labels, {time.perf_counter() - start:.0f} s\n")
    return model


def main(paths: list[str], assignments: list[str]) -> None:
    """Train all three, and print the figures of dev and test."""
    words = [corpus.read(path, format="conllu").sentences for path in paths]
    joint = learned("seg", "bmes", [[*map(to_characters, part)] for part in words], assignments)
    spelled = [[sentence_from_words(sentence.tokens) for sentence in part] for part in words]
    segmenter = learned("seg", "bmes", spelled, assignments)
    pipeline = Pipeline({"seg": segmenter, "pos": learned("pos", "plain", words, assignments)})
    sys.stdout.write("| part | way | segmentation F1 | joint F1 | recall of unknown words |\n|---|---|---|---|---|\n")
    known = {token for sentence in words[0] for token in sentence.tokens}
    for name, part in zip(("dev", "test"), words[1:], strict=True):
        texts = ["".join(sentence.tokens) for sentence in part]
        for way, found in (
            ("segmenter, then tagger", [one.sentence for one in pipeline(texts)]),
            ("joint", [one.to_words() for one in joint(texts)]),
        ):
            scores = metrics.joint_scores(pairs(part), pairs(found), vocabulary=known)
            figures = (scores.words.words.f1, scores.tagged.f1, scores.words.oov_recall or 0.0)
            row = " | ".join(f"{100 * figure:.2f}" for figure in figures)
            sys.stdout.write(f"| {name} | {way} | {row} |\n")


if __name__ == "__main__":
    files, settings = sys.argv[1:4], sys.argv[4:]
    main(files, settings) if len(files) == 3 else sys.exit(__doc__)
