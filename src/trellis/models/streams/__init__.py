"""Corpora that memory does not hold: `once` for models that read them once, `epochs` for those that read them again.

A feature CRF compiles each block of sentences as it comes and keeps the result on disk (`LabelledStream`). A neural
tagger reads the files anew in each epoch, a window of sentences at a time (`SentenceStream`). Both take
`trellis.corpus.Shards`.
"""
