"""Programs that import a rival by its name get Trellis."""

import os
import pickle
import subprocess
import sys

import pytest

import trellis.compat
from trellis.errors import ConfigError


def run(code):
    """The standard output of a new process, and its standard error."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout, done.stderr


def test_names_are_taken_and_given_back():
    out, err = run("""
import sys, trellis.compat
with trellis.compat.install("seqeval", "hmmlearn"):
    import seqeval.metrics
    from seqeval.metrics.sequence_labeling import get_entities
    from seqeval.scheme import IOB2
    from hmmlearn import hmm
    print(seqeval.metrics.f1_score.__module__.split(".")[0], get_entities(["B-X", "O"]), hmm.CategoricalHMM.__module__)
    import trellis.compat.seqeval.metrics
    print(trellis.compat.seqeval.metrics is sys.modules["seqeval.metrics"])
print([name for name in sys.modules if name.split(".")[0] in ("seqeval", "hmmlearn")])
from seqeval.metrics import f1_score
print(f1_score.__module__)
""")
    assert out.splitlines() == [
        "trellis [('X', 0, 0)] trellis.compat.hmmlearn.hmm",
        "True",
        "[]",
        "seqeval.metrics.sequence_labeling",
    ], err


def test_what_was_imported_before_is_an_error():
    assert run("import seqeval.metrics, trellis.compat; trellis.compat.install('seqeval')")[1].splitlines()[-1] == (
        "trellis.errors.ConfigError: seqeval is already imported: call trellis.compat.install before it is"
    )
    with pytest.raises(ConfigError, match=r"package must be one of .*, got 'seqevall'; did you mean 'seqeval'\?"):
        trellis.compat.install("seqevall")


def test_pickles_that_the_original_wrote_open_under_the_alias(tmp_path):
    import sklearn_crfsuite

    X, y = [[{"w": w} for w in "abcab"], [{"w": w} for w in "cab"]] * 5, [[*"ABCAB"], [*"CAB"]] * 5
    theirs = sklearn_crfsuite.CRF(c1=0.1).fit(X, y, X_dev=X[:2], y_dev=y[:2])
    (tmp_path / "model.pkl").write_bytes(pickle.dumps((theirs, list(theirs.predict(X)), theirs.state_features_)))
    out, err = run(f"""
import pickle, sys, trellis.compat
trellis.compat.install("sklearn_crfsuite")
model, tags, weights = pickle.load(open({str(tmp_path / "model.pkl")!r}, "rb"))
X = {X!r}
print(type(model).__module__, list(model.predict(X)) == tags, model.c1, model.training_log_.last_iteration["avg_f1"])
print(max(abs(model.state_features_[key] - weight) for key, weight in weights.items()) < 1e-6)
again = pickle.loads(pickle.dumps(model))
print(list(again.predict(X)) == tags, again.modelfile.name != model.modelfile.name)
from sklearn_crfsuite import CRF, metrics, scorers
from sklearn_crfsuite.utils import flatten
print(flatten([[1], [2, 3]]), model.modelfile.name)
print(CRF().fit(X, {y!r}).score(X, {y!r}), [name for name in sys.modules if name == "_pycrfsuite"])
""")
    assert out.splitlines() == [
        "trellis.compat.sklearn_crfsuite.estimator True 0.1 1.0",
        "True",
        "True True",
        f"[1, 2, 3] {(out.splitlines() + [''] * 4)[3].partition('] ')[2]}",
        "1.0 []",
    ], err
    assert err == ""
    assert not os.path.exists(out.splitlines()[3].partition("] ")[2])  # removed when Python ended


def test_scripts_and_modules_run_under_the_aliases(tmp_path):
    (tmp_path / "helper.py").write_text("from seqeval.metrics import f1_score\n")
    (tmp_path / "script.py").write_text(
        "import sys, helper, pycrfsuite\n"
        "if __name__ == '__main__':\n"
        "    print(helper.f1_score.__module__.split('.')[0], pycrfsuite.__name__, sys.argv[1:])\n"
    )
    ours = "trellis trellis.compat.pycrfsuite ['--x', '1']\n"
    command = [sys.executable, "-m", "trellis.compat"]

    def output(*arguments):
        return subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True)

    assert output("--as", "seqeval,pycrfsuite", "script.py", "--x", "1").stdout == ours
    assert output("--as=seqeval,pycrfsuite", "-m", "script", "--x", "1").stdout == ours
    assert output("--as", "pycrfsuite", "script.py").stdout == "seqeval trellis.compat.pycrfsuite []\n"
    assert output(str(tmp_path / "script.py"), "--x", "1").stdout == ours
    assert "error: package must be one of" in output("--as", "x", "script.py").stderr
    assert "python -m trellis.compat [--as" in output().stderr
