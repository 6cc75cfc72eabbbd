"""The grammars of the demo's corpora, and the drawing of sentences from them."""
