"""Models for other programs: one ONNX file with the decoder inside, and a JSON file that says how to call it.

    to_onnx(trellis.load("model"), "model.onnx")      model.onnx and model.json
    feeds(tagger, sentences)                          what the file takes, as arrays
    to_web(trellis.load("model"), "site")             a page that tags in the browser

The answers are those of the tagger: the best labels, the exact probability of each label at each token, and the
probability of the best path. docs/guides/onnx.md has the details.
"""

from trellis.export.onnx import feeds, to_onnx, to_web

__all__ = ["feeds", "to_onnx", "to_web"]
