"""Model folders: what every family leaves there, and that work in them is neither lost nor mixed."""

import json
import os

import numpy as np
import pytest

from tests.models.contract import TRAIN
from trellis import CRF, HMM, load
from trellis.errors import ModelError, StoreError
from trellis.models import NeuralTagger, folder
from trellis.models.crf.training import CRFObjective
from trellis.text import Sentence
from trellis.training import read_history
from trellis.training.checkpoint import locked

WHOLE = ["config.toml", "history.json", "learning-curve.svg", "model.safetensors"]
TINY = {
    "encoder": {"words": {"size": 4}, "characters": {"size": 2, "output": 2}, "hidden": 4},
    "training": {"epochs": 4, "batch_size": 2},
}
HALF = [[tag if i % 2 else None for i, tag in enumerate(s.tags)] for s in TRAIN]


def crf(**options):
    return CRF(max_iterations=5, **options), (TRAIN,)


def hmm(**options):
    return HMM(max_iterations=5, tolerance=0.0, **options), ([s.tokens for s in TRAIN], HALF)


def neural(**options):
    return NeuralTagger(**TINY | options), (TRAIN,)


MAKERS = pytest.mark.parametrize("make", [crf, hmm, neural])


class Interrupted:
    """Ctrl-C after the iteration of this number."""

    def __init__(self, iteration):
        self._iteration = iteration

    def __call__(self, step):
        if step.iteration == self._iteration:
            raise KeyboardInterrupt


class KilledError(Exception):
    """In place of a kill: nothing handles it."""


def killed_at(iteration):
    def progress(step):
        if step.iteration == iteration:
            raise KilledError

    return progress


@MAKERS
class TestEveryFamily:
    def test_leaves_its_model_with_a_curve_and_nothing_else(self, make, tmp_path):
        model, data = make()
        model.fit(*data, folder=tmp_path)
        assert sorted(os.listdir(tmp_path)) == WHOLE
        assert load(tmp_path).predict(TRAIN) == model.predict(TRAIN)
        assert read_history(tmp_path) == model.history_
        assert len(model.history_.steps) > 1

    def test_keeps_what_it_has_learned_at_ctrl_c(self, make, tmp_path):
        model, data = make()
        model.fit(*data, folder=tmp_path, progress=Interrupted(2))
        assert read_history(tmp_path).reason == "interrupted"
        assert len(read_history(tmp_path).steps) == 2
        assert load(tmp_path).predict(TRAIN) == model.predict(TRAIN)

    def test_ctrl_c_before_anything_is_learned_leaves_an_older_model_alone(self, make, tmp_path, monkeypatch):
        model, data = make()
        model.fit(*data, folder=tmp_path)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        model, data = make()
        monkeypatch.setattr("trellis.training.loop._step", _press)
        monkeypatch.setattr("trellis.training.neural.optimizer.Stepper.take", _press)
        model.fit(*data, folder=tmp_path)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_a_second_training_in_the_folder_is_refused_at_once(self, make, tmp_path):
        model, _ = make()
        with locked(tmp_path), pytest.raises(ModelError, match=f"is in use: process {os.getpid()} on"):
            model.fit(None, folder=tmp_path)  # before it looks at its data

    def test_an_error_leaves_no_trace(self, make, tmp_path):
        model, data = make()
        with pytest.raises(KilledError):
            model.fit(*data, folder=tmp_path / "new", progress=killed_at(1) if make is not neural else _raise)
        left = [path.name for path in (tmp_path / "new").glob("*")]  # a folder with nothing in it is gone, too
        assert left == ([] if make is not neural else ["checkpoints"])
        assert (tmp_path / "new").exists() == bool(left)

    def test_an_older_model_stays_until_the_new_one_is_whole(self, make, tmp_path):
        model, data = make()
        model.fit(*data, folder=tmp_path)
        before = {name: (tmp_path / name).read_bytes() for name in WHOLE}
        model, data = make()
        with pytest.raises(KilledError):
            model.fit(*data, folder=tmp_path, progress=killed_at(2))
        assert {name: (tmp_path / name).read_bytes() for name in WHOLE} == before

    def test_a_full_disk_leaves_the_older_model(self, make, tmp_path, monkeypatch):
        model, data = make()
        model.fit(*data, folder=tmp_path)
        before = {name: (tmp_path / name).read_bytes() for name in WHOLE}
        monkeypatch.setattr("trellis.files._sync", _full)
        model, data = make()
        with pytest.raises(StoreError, match="cannot be written: No space left on device"):
            model.fit(*data, folder=tmp_path)
        assert {name: (tmp_path / name).read_bytes() for name in WHOLE} == before
        assert not list(tmp_path.rglob(".*"))


def _press(*_):
    raise KeyboardInterrupt


def _raise(_):
    raise KilledError


def _full(_):
    raise OSError(28, os.strerror(28))


class TestOtherModels:
    def test_a_model_of_another_kind_is_not_replaced(self, tmp_path):
        crf()[0].fit(TRAIN, folder=tmp_path)
        with pytest.raises(ModelError, match="holds a crf model, not a hmm model: replace it with --overwrite"):
            HMM().fit(TRAIN, folder=tmp_path)
        assert isinstance(load(tmp_path), CRF)

    def test_nor_is_a_file_that_is_no_model(self, tmp_path):
        (tmp_path / "model.safetensors").write_text("my notes")
        with pytest.raises(ModelError, match="holds a file that is not a model"):
            HMM().fit(TRAIN, folder=tmp_path)

    def test_another_family_of_the_same_kind_is_known_by_the_record(self, tmp_path):
        neural()[0].fit(TRAIN, folder=tmp_path)
        folder.save_record(tmp_path, {"model": "bilstm-crf"})
        with (
            pytest.raises(ModelError, match="holds a bilstm-crf model, not a softmax model"),
            folder.training(tmp_path, "softmax", "neural"),
        ):
            pytest.fail("it would be replaced")
        with folder.training(tmp_path, "softmax", "neural", overwrite=True):
            pass
        with folder.training(tmp_path, "bilstm-crf", "neural"):
            pass

    def test_the_record_of_another_training_does_not_stay(self, tmp_path):
        crf()[0].fit(TRAIN, folder=tmp_path)
        folder.save_record(tmp_path, {"model": "crf", "command": "trellis train"})
        crf()[0].fit(TRAIN, folder=tmp_path)
        assert folder.read_record(tmp_path) == {}

    def test_counting_leaves_no_curve_of_an_earlier_training(self, tmp_path):
        hmm()[0].fit(*hmm()[1], folder=tmp_path)
        HMM().fit(TRAIN, folder=tmp_path)
        assert sorted(os.listdir(tmp_path)) == [name for name in WHOLE if name != "learning-curve.svg"]


class TestResuming:
    def killed(self, path, at=2, data=TRAIN, **options):
        with pytest.raises(KilledError):
            neural()[0].fit(data, folder=path, progress=killed_at(at), **options)

    def bytes_of(self, path):
        return (path / "model.safetensors").read_bytes()

    def test_a_killed_training_is_refused_before_anything_is_read(self, tmp_path, monkeypatch):
        self.killed(tmp_path)
        monkeypatch.setattr("trellis.models.neural.training.add_vectors", lambda *_: pytest.fail("vectors were read"))
        message = r"holds a neural training that did not end, begun 20.*: continue it with --resume"
        with pytest.raises(ModelError, match=message):
            neural()[0].fit(None, folder=tmp_path)

    @MAKERS
    def test_it_goes_on_to_the_same_model_and_leaves_no_checkpoint(self, make, tmp_path):
        often = {} if make is neural else {"checkpoint_seconds": 0.0}
        data = make()[1]
        make(**often)[0].fit(*data, folder=tmp_path / "whole")
        with pytest.raises(KilledError):
            make(**often)[0].fit(*data, folder=tmp_path / "killed", progress=killed_at(3))
        with pytest.raises(ModelError, match="did not end"):
            make()[0].fit(*data, folder=tmp_path / "killed")
        make(**often)[0].fit(*data, folder=tmp_path / "killed", resume=True)
        assert self.bytes_of(tmp_path / "killed") == self.bytes_of(tmp_path / "whole")
        assert sorted(os.listdir(tmp_path / "killed")) == WHOLE

    @MAKERS
    def test_an_interrupted_one_has_a_model_and_goes_on(self, make, tmp_path):
        """Also before the first checkpoint is due."""
        data = make()[1]
        make()[0].fit(*data, folder=tmp_path / "whole")
        make()[0].fit(*data, folder=tmp_path / "one", progress=Interrupted(3))
        assert load(tmp_path / "one").labels_
        with pytest.raises(ModelError, match="did not end"):
            make()[0].fit(*data, folder=tmp_path / "one")
        make()[0].fit(*data, folder=tmp_path / "one", resume=True)
        assert self.bytes_of(tmp_path / "one") == self.bytes_of(tmp_path / "whole")

    @pytest.mark.parametrize("algorithm", ["sgd", "ap", "pa", "arow"])
    def test_an_interruption_in_the_middle_of_a_pass_goes_back_to_its_beginning(self, algorithm, tmp_path, monkeypatch):
        settings = {"algorithm": algorithm, "max_iterations": 6, "learning_rate": 0.1 if algorithm == "sgd" else None}
        CRF(**settings).fit(TRAIN, folder=tmp_path / "whole")
        name = {"sgd": "descend", "ap": "correct", "pa": "passive_aggressive", "arow": "arow"}[algorithm]
        plain, passes = getattr(CRFObjective, name), []

        def interrupted(*arguments):
            passes.append(plain(*arguments))
            if len(passes) == 3:  # the weights have moved already
                raise KeyboardInterrupt
            return passes[-1]

        with monkeypatch.context() as patched:
            patched.setattr(CRFObjective, name, interrupted)
            CRF(**settings).fit(TRAIN, folder=tmp_path / "one")
        assert len(read_history(tmp_path / "one").steps) == 2
        CRF(**settings).fit(TRAIN, folder=tmp_path / "one", resume=True)
        assert self.bytes_of(tmp_path / "one") == self.bytes_of(tmp_path / "whole")

    def test_there_must_be_a_folder_to_resume_from(self):
        with pytest.raises(ModelError, match="resume needs the folder"):
            CRF().fit(TRAIN, resume=True)

    def test_a_training_that_ended_without_its_model_being_saved_is_not_lost(self, tmp_path, monkeypatch):
        neural()[0].fit(TRAIN, folder=tmp_path / "whole")
        with monkeypatch.context() as patched:
            patched.setattr(folder, "save_model", lambda *_: _raise(None))
            with pytest.raises(KilledError):
                neural()[0].fit(TRAIN, folder=tmp_path / "one")
        with pytest.raises(ModelError, match="did not end"):
            neural()[0].fit(TRAIN, folder=tmp_path / "one")
        neural()[0].fit(TRAIN, folder=tmp_path / "one", resume=True)
        assert self.bytes_of(tmp_path / "one") == self.bytes_of(tmp_path / "whole")

    def test_a_finished_one_has_nothing_to_resume(self, tmp_path):
        neural()[0].fit(TRAIN, folder=tmp_path)
        with pytest.raises(ModelError, match=r"a finished training: there is nothing to resume.*--warm-start"):
            neural()[0].fit(None, folder=tmp_path, resume=True)

    def test_another_setting_is_named_as_it_is_written(self, tmp_path):
        self.killed(tmp_path)
        changed, _ = neural(encoder={**TINY["encoder"], "dropout": 0.5})
        message = r"^cannot resume with another encoder\.dropout: the training began with 0\.0, now it is 0\.5$"
        with pytest.raises(ValueError, match=message):
            changed.fit(TRAIN, folder=tmp_path, resume=True)
        changed, _ = neural(training={**TINY["training"], "seed": 7})
        with pytest.raises(ValueError, match=r"another training\.seed"):
            changed.fit(TRAIN, folder=tmp_path, resume=True)

    def test_more_epochs_are_no_other_training(self, tmp_path):
        self.killed(tmp_path)
        more, _ = neural(training={**TINY["training"], "epochs": 6})
        assert len(more.fit(TRAIN, folder=tmp_path, resume=True).history_.steps) == 6
        self.killed(tmp_path, at=3)
        fewer, _ = neural(training={**TINY["training"], "epochs": 2})
        with pytest.raises(ValueError, match=r"^cannot resume with training\.epochs = 2: 3 epochs are done$"):
            fewer.fit(TRAIN, folder=tmp_path, resume=True)

    def test_a_changed_word_label_or_weight_is_other_data(self, tmp_path):
        self.killed(tmp_path, dev=TRAIN[:2])
        words, labels = list(TRAIN), list(TRAIN)
        words[2] = Sentence(["Roma", *TRAIN[2].tokens[1:]], TRAIN[2].tags)
        labels[2] = TRAIN[2].with_tags(["O", *TRAIN[2].tags[1:]])
        for data, dev, weights, what in (
            (words, TRAIN[:2], None, "training data"),
            (labels, TRAIN[:2], None, "training data"),
            (TRAIN[::-1], TRAIN[:2], None, "training data"),
            (TRAIN, words[2:4], None, "dev data"),
            (TRAIN, None, None, "dev data"),
            (TRAIN, TRAIN[:2], np.ones(len(TRAIN)), "sentence weights"),
        ):
            with pytest.raises(ModelError, match=f"^cannot resume: the {what} differ from those that the training"):
                neural()[0].fit(data, dev=dev, sentence_weights=weights, folder=tmp_path, resume=True)
        neural()[0].fit(TRAIN, dev=TRAIN[:2], folder=tmp_path, resume=True)

    def test_other_vectors_under_the_same_name_are_too(self, tmp_path):
        settings = {**TINY["encoder"], "words": {"vectors": str(tmp_path / "v.txt")}}
        (tmp_path / "v.txt").write_text("Rome 1 2\nAnna 3 4\n")
        with pytest.raises(KilledError):
            neural(encoder=settings)[0].fit(TRAIN, folder=tmp_path / "m", progress=killed_at(1))
        (tmp_path / "v.txt").write_text("Rome 1 2\nAnna 3 5\n")
        with pytest.raises(ModelError, match="the vectors and other frozen weights differ"):
            neural(encoder=settings)[0].fit(TRAIN, folder=tmp_path / "m", resume=True)

    def test_the_model_of_a_warm_start_has_to_be_the_same(self, tmp_path):
        start = neural()[0].fit(TRAIN)
        with pytest.raises(KilledError):
            start.fit(TRAIN, folder=tmp_path, warm_start=True, progress=killed_at(1))
        with pytest.raises(ModelError, match=r"the weights of the model to start from differ .* now none"):
            neural()[0].fit(TRAIN, folder=tmp_path, resume=True)


class TestLoading:
    def unfinished(self, path, *checkpoints):
        (path / "checkpoints").mkdir()
        state = {"state": "begun", "model": "bilstm-crf", "started": "2026-01-01 10:00:00+00:00"}
        (path / "checkpoints" / "state.json").write_text(json.dumps(state))
        for name in checkpoints:
            (path / "checkpoints" / name).touch()

    def test_a_killed_training_is_to_be_resumed(self, tmp_path):
        self.unfinished(tmp_path, "checkpoint-00000001.safetensors")
        message = r"holds no model: it holds a bilstm-crf training that did not end, begun 2026-.*train --resume$"
        with pytest.raises(StoreError, match=message):
            load(tmp_path)

    def test_without_a_checkpoint_it_is_to_be_trained_again(self, tmp_path):
        self.unfinished(tmp_path)
        with pytest.raises(StoreError, match=r"did not end, .*; train it again$"):
            load(tmp_path)

    def test_a_running_one_is_to_be_waited_for(self, tmp_path):
        self.unfinished(tmp_path)
        with locked(tmp_path), pytest.raises(StoreError, match=f"no model yet: process {os.getpid()} on .*is training"):
            load(tmp_path)

    def test_a_damaged_state_is_no_state(self, tmp_path):
        self.unfinished(tmp_path)
        (tmp_path / "checkpoints" / "state.json").write_text("{")
        with pytest.raises(StoreError, match=r"holds no model: expected model\.safetensors in it$"):
            load(tmp_path)


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "training.json").write_text("{")
    with pytest.raises(StoreError, match=r"training\.json cannot be read: expected JSON: Expecting property name"):
        folder.read_record(tmp_path)
    (tmp_path / "training.json").write_text("[]")
    with pytest.raises(StoreError, match=r"training\.json, the record of a training, must be an object"):
        folder.read_record(tmp_path)
    assert folder.read_record(tmp_path / "nowhere") == {}


def test_processes_beside_the_main_one_write_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    crf()[0].fit(TRAIN, folder=tmp_path)
    assert os.listdir(tmp_path) == []
