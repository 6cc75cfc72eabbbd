"""A corpus in shards that is read anew in each epoch."""

import json

import numpy as np
import pytest

import trellis
from trellis import corpus, demo
from trellis.corpus import Shards
from trellis.errors import CorpusError, DataError, ModelError
from trellis.models.neural.stream import SentenceStream
from trellis.text import Sentence

SENTENCES = demo.english().train[:90]
DEV = demo.english().dev[:20]
SMALL = {"words": {"size": 8}, "characters": {"size": 4, "output": 4}, "hidden": 8}
TABLES = ("parquet", "arrow", "stream.arrow")


def write(folder, sizes, form="jsonl", sentences=SENTENCES):
    """Shards of these sizes."""
    folder.mkdir(parents=True)
    first = 0
    for number, size in enumerate(sizes):
        own = sentences[first : first + size]
        first += size
        path = folder / f"part-{number:02d}.{form}"
        if form in TABLES:
            write_table(path, form, own)
        else:
            corpus.write(path, own)
    return folder


def write_table(path, form, sentences):
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.Table.from_pylist(list(corpus.to_rows(sentences, tags="tags")))
    if form == "parquet":
        pyarrow.parquet.write_table(table, path)
        return
    make = pa.ipc.new_stream if form == "stream.arrow" else pa.ipc.new_file
    with make(path, table.schema) as file:
        file.write_table(table, max_chunksize=7)


def tagger(**training):
    given = {"epochs": 3, "batch_size": 8, "window": 1000, **training}
    return trellis.NeuralTagger(encoder=SMALL, training=given)


def weights(model):
    return {name: np.asarray(value).tobytes() for name, value in model.model_.weights.items()}


class TestShards:
    @pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "conll", "parquet", "arrow", "stream.arrow"])
    def test_every_kind_gives_the_same_sentences_each_time(self, form, tmp_path):
        shards = Shards(write(tmp_path / "in", [40, 0, 50], form))
        for _ in range(2):
            found = list(shards)
            assert [(s.tokens, s.tags) for s in found] == [(s.tokens, s.tags) for s in SENTENCES]
        assert found[41].path.endswith(f"part-02.{form}")
        assert found[41].line_of(0) is not None

    def test_files_by_name_and_folders_at_any_depth(self, tmp_path):
        write(tmp_path / "in" / "b", [1])
        write(tmp_path / "in" / "a", [1])
        write(tmp_path / "in" / "_no_data", [1])
        shards = Shards(tmp_path / "in")
        assert [path.split("/")[-2] for path in shards.paths] == ["a", "b"]
        assert Shards([shards.paths[1]]).paths == shards.paths[1:]

    def test_nothing_there(self, tmp_path):
        with pytest.raises(DataError, match="no such file or folder"):
            Shards(tmp_path / "missing")
        with pytest.raises(DataError, match=r"there is no file in .*: expected shards of a corpus"):
            Shards(tmp_path)

    def test_bad_rows_are_named(self, tmp_path):
        folder = write(tmp_path / "in", [3, 4], "parquet")
        write_table(folder / "part-01.parquet", "parquet", [Sentence(["a"], ["O"])])
        import pyarrow as pa
        import pyarrow.parquet

        rows = {"tokens": [["a"], ["b", "c"]], "tags": [["O"], ["O"]]}
        pyarrow.parquet.write_table(pa.table(rows), folder / "part-01.parquet")
        with pytest.raises(CorpusError, match=r"part-01.parquet:2: expected as many 'tags' as 'tokens', found 1 and 2"):
            list(Shards(folder))
        (folder / "part-00.parquet").write_bytes(b"nonsense")
        with pytest.raises(DataError, match=r"part-00.parquet: expected a Parquet file"):
            list(Shards(folder))
        (folder / "part-00.parquet").rename(folder / "part-00.arrow")
        with pytest.raises(DataError, match=r"part-00.arrow: this Arrow file cannot be read"):
            list(Shards(folder))

    def test_other_families_read_all_of_them(self, tmp_path):
        shards = Shards(write(tmp_path / "in", [60, 30]))
        assert trellis.HMM().fit(shards).labels_ == trellis.HMM().fit(SENTENCES).labels_


class TestStream:
    def test_an_epoch_has_every_sentence_once_in_windows(self, tmp_path):
        stream = SentenceStream.of(Shards(write(tmp_path / "in", [10, 0, 35, 5, 40])))
        assert stream.counts == (10, 0, 35, 5, 40)
        orders = {tuple(stream.order(1, epoch)) for epoch in range(20)}
        assert len(orders) > 5
        for order in [None, *orders]:
            windows = [window.inputs for window in stream.windows(16, order)]
            assert [len(window) for window in windows] == [16] * 5 + [10]
            found = [sentence.tokens for window in windows for sentence in window]
            assert sorted(found) == sorted(sentence.tokens for sentence in SENTENCES)

    @pytest.mark.parametrize("size", [1, 7, 16, 90, 200])
    def test_what_is_left_of_an_epoch_is_its_end(self, size, tmp_path):
        stream = SentenceStream.of(Shards(write(tmp_path / "in", [10, 0, 35, 5, 40])))
        order = stream.order(3, 1)
        whole = [window.inputs for window in stream.windows(size, order)]
        for first in range(0, len(whole) + 2, 1 + len(whole) // 6):
            assert [window.inputs for window in stream.windows(size, order, first)] == whole[first:]

    def test_shards_that_are_done_are_not_read_again(self, tmp_path):
        read = []
        folder = write(tmp_path / "in", [30, 30, 30])
        shards = Shards(folder, read=lambda path: read.append(path) or corpus.iterate(path))
        stream = SentenceStream.of(shards)
        read.clear()
        assert len(list(stream.windows(10, None, 6))) == 3
        assert read == [str(folder / "part-02.jsonl")]

    def test_the_sample_shows_every_pair_of_labels(self, tmp_path, monkeypatch):
        monkeypatch.setattr("trellis.models.neural.stream._SAMPLE", 2)
        stream = SentenceStream.of(Shards(write(tmp_path / "in", [90])))
        assert 2 < len(stream.sample.inputs) < 60
        sample, corpus = stream.sample, trellis.models.data.Labelled.of(SENTENCES)
        assert sample.labels_in(sample.detect(None)) == corpus.labels_in(corpus.detect(None))


class TestTraining:
    def test_one_shard_in_one_window_is_training_in_memory_bit_for_bit(self, tmp_path):
        shards = Shards(write(tmp_path / "in", [90]))
        streamed = tagger(accumulate=2).fit(shards, dev=DEV)
        held = tagger(accumulate=2).fit(SENTENCES, dev=DEV)
        assert weights(streamed) == weights(held)
        assert [s.loss for s in streamed.history_.steps] == [s.loss for s in held.history_.steps]
        assert streamed.model_.vocabulary == held.model_.vocabulary

    def test_small_windows_learn_too_and_always_the_same(self, tmp_path):
        shards = Shards(write(tmp_path / "in", [20, 30, 25, 15], "parquet"))
        given = {"window": 16, "epochs": 12, "learning_rate": 0.05}
        first = tagger(**given).fit(shards)
        assert first.evaluate(SENTENCES).micro.f1 > 0.3
        assert weights(tagger(**given).fit(shards)) == weights(first)
        assert weights(tagger(**given, seed=2).fit(shards)) != weights(first)

    def test_pairs_of_characters_and_segments_are_learned_from_all_windows(self, tmp_path):
        chinese = demo.chinese().train[:60]
        shards = Shards(write(tmp_path / "in", [60], sentences=chinese))
        for head in ("crf", "semicrf"):
            models = [
                trellis.NeuralTagger(head=head, encoder=SMALL, training={"epochs": 1, "window": size}).fit(shards)
                for size in (13, 1000)
            ]
            assert models[0].model_.vocabulary == models[1].model_.vocabulary
            assert models[0].model_.vocabulary.pairs.names
            assert models[0].settings_.longest == models[1].settings_.longest

    @pytest.mark.parametrize("kill", [1, 4, 9, 13, 22, 30])
    def test_a_killed_training_goes_on_to_the_same_weights(self, kill, tmp_path, monkeypatch):
        """At any step, be it within a window or between two, with checkpoints after every second step."""
        shards = Shards(write(tmp_path / "in", [20, 30, 25, 15]))
        training = {"window": 20, "checkpoint_every": 2, "averaging": "ema", "accumulate": 2, "batch_size": 3}
        whole = tagger(**training).fit(shards, dev=DEV)
        from trellis.training.neural.optimizer import Stepper

        take = Stepper.take

        def killed(self, number, examples, batches):
            if number == kill:
                raise OSError("killed")
            return take(self, number, examples, batches)

        monkeypatch.setattr(Stepper, "take", killed)
        with pytest.raises(OSError, match="killed"):
            tagger(**training).fit(shards, dev=DEV, folder=tmp_path / "model")
        monkeypatch.undo()
        resumed = tagger(**training).fit(shards, dev=DEV, folder=tmp_path / "model", resume=True)
        assert weights(resumed) == weights(whole)
        assert [s.loss for s in resumed.history_.steps] == [s.loss for s in whole.history_.steps]

    def test_other_shards_or_windows_do_not_go_on(self, tmp_path):
        keep = {"keep_when_finished": True, "epochs": 1}
        folder = tmp_path / "model"
        tagger(**keep).fit(Shards(write(tmp_path / "in", [50, 40])), folder=folder)
        with pytest.raises(ModelError, match=r"the training data differ .* streamed from 2 shards, .* from 3 shards"):
            tagger(**keep).fit(Shards(write(tmp_path / "other", [50, 30, 10])), folder=folder, resume=True)
        with pytest.raises(ModelError, match="the training data differ"):
            tagger(**keep).fit(SENTENCES, folder=folder, resume=True)
        with pytest.raises(trellis.errors.ConfigError, match=r"another training.window: the training began with 1000"):
            tagger(**keep, window=20).fit(Shards(tmp_path / "in"), folder=folder, resume=True)


class TestErrors:
    def test_bad_labels_are_named_by_shard_and_line(self, tmp_path, monkeypatch):
        monkeypatch.setattr("trellis.models.neural.stream._SAMPLE", 2)
        folder = write(tmp_path / "in", [40, 50])
        row = {"tokens": ["a", "b"], "tags": ["O", "I-PER"]}
        with open(folder / "part-01.jsonl", "a") as file:
            file.write(json.dumps(row) + "\n")
        with pytest.raises(DataError, match=r"part-01.jsonl:51: bad tag 'I-PER'"):
            tagger().fit(Shards(folder))

    def test_a_broken_line_and_a_sentence_without_tags(self, tmp_path):
        folder = write(tmp_path / "in", [40, 50])
        with open(folder / "part-00.jsonl", "a") as file:
            file.write('{"tokens": ["a"]}\n')
        with pytest.raises(DataError, match=r"part-00.jsonl:41: the sentence has no tags to learn from"):
            tagger().fit(Shards(folder))
        with open(folder / "part-00.jsonl", "a") as file:
            file.write('{"tokens": \n')
        with pytest.raises(CorpusError, match=r"part-00.jsonl:42: expected JSON"):
            list(Shards(folder))

    @pytest.mark.parametrize("sizes", [[40, 30], [40, 50], [40, 51]])
    def test_a_shard_that_changes_meanwhile(self, sizes, tmp_path):
        folder = write(tmp_path / "in", [40, 50])
        stream = SentenceStream.of(Shards(folder))
        write(tmp_path / "new", sizes, sentences=SENTENCES * 2)
        (tmp_path / "new" / "part-01.jsonl").replace(folder / "part-01.jsonl")
        with pytest.raises(DataError, match=r"part-01.jsonl: the file changed .* written again"):
            list(stream.windows(16))

    @pytest.mark.parametrize(("count", "said"), [(30, "30"), (51, "more")])
    def test_a_reader_that_gives_other_sentences_each_time(self, count, said, tmp_path):
        folder, counts = write(tmp_path / "in", [50]), iter([50, count])
        stream = SentenceStream.of(Shards(folder, read=lambda path: SENTENCES[: next(counts)]))
        with pytest.raises(DataError, match=f"part-00.jsonl: the file changed .* 50 sentences, now it has {said}"):
            list(stream.windows(16))

    def test_what_needs_all_sentences_is_refused(self, tmp_path):
        shards = Shards(write(tmp_path / "in", [90]))
        with pytest.raises(ModelError, match="on_bad_tags='repair' needs all sentences at once"):
            tagger().fit(shards, on_bad_tags="repair")
        with pytest.raises(ModelError, match="give X alone"):
            tagger().fit(shards, sentence_weights=[1.0] * 90)
        names = trellis.Lexicon([("London", "LOC")], strength="feature")
        with pytest.raises(ModelError, match="a stream never has them"):
            tagger().fit(shards, lexicon=names)

    def test_nothing_to_learn_from(self, tmp_path):
        with pytest.raises(ModelError, match="the corpus has no sentence"):
            tagger().fit(Shards(write(tmp_path / "in", [0])))
