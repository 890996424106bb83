"""Saved models: the same file for the command and for Python, and export to ONNX."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import thalweg
from thalweg import ConstrainedClassifier, FairClassifier, NeymanPearsonClassifier
from thalweg.learn import demographic_parity


def customers(rows=1200, seed=0):
    """Return customers with amounts up to 1e6 beside codes, missing cells, categories and two group columns."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "limit": rng.gamma(2.0, 1e5, rows).round(2),
            "status": rng.integers(-2, 9, rows),
            "months": np.where(rng.random(rows) < 0.1, np.nan, rng.integers(1, 60, rows)),
            "job": rng.choice(["clerk", "smith, old", "maler é", "none"], rows, p=[0.5, 0.3, 0.19, 0.01]),
            "code": rng.choice([1, 2, 3], rows),
            "sex": rng.choice(["f", "m"], rows),
            "region": rng.choice(["north", "south", "east"], rows),
        }
    )
    frame.loc[rng.random(rows) < 0.05, "job"] = None
    score = frame["limit"] / 2e5 - 0.4 * frame["status"] + (frame["sex"] == "m") + rng.normal(size=rows)
    return frame.assign(default=np.where(score > 1.2, "yes", "no"))


def command(place, *words, code=0):
    ran = subprocess.run([sys.executable, "-m", "thalweg", *words], cwd=place, capture_output=True, text=True)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout if code == 0 else ran.stderr


def fitted_by_the_command(place, *more):
    customers().to_csv(place / "customers.csv", index=False)
    words = ["fit", "customers.csv", "--label", "default", "--categorical", "code", "--out", "m", "--quiet"]
    command(place, *words, *more)
    return pd.read_csv(place / "customers.csv", converters={"limit": float})


def polars_of(frame):
    return pl.DataFrame({name: [None if pd.isna(cell) else cell for cell in frame[name].tolist()] for name in frame})


FAIR = ("--group", "sex", "--subject-to", "demographic_parity <= 0.1")


def test_a_model_of_the_command_gives_the_same_bits_in_python(tmp_path):
    frame = fitted_by_the_command(tmp_path, *FAIR)
    model = thalweg.load(tmp_path / "m")
    predictions = pd.read_csv(
        command_output(tmp_path, "predict", "m", "customers.csv"), converters={"score": float, "probability": float}
    )
    turned = frame[frame.columns[::-1]].drop(columns=["default", "region"]).assign(region=frame["region"], extra="x")
    for X in (frame, turned, polars_of(frame), frame.astype({"code": float, "job": "category"}), frame.convert_dtypes()):
        assert np.array_equal(model.decision_function(X), predictions["score"].to_numpy())
        assert model.predict(X).tolist() == predictions["label"].tolist()
    assert model.classes_.tolist() == ["no", "yes"] and "code = 2" in model.feature_names_
    assert model.columns_ == ["limit", "status", "months", "job", "code", "sex", "region"]
    assert np.array_equal(pickle.loads(pickle.dumps(model)).decision_function(frame), model.decision_function(frame))
    assert model.training_["subject_to"] == ["demographic_parity <= 0.1"]
    # What the file has about its training rows, and the same numbers from the rows of the whole table.
    recorded, whole = model.report().set_index("group"), model.report(frame).set_index("group")
    said = model.predict(frame) == "yes"
    for held in model.measured_["held_out"]["groups"]:
        inside = frame["sex"] == held["group"]
        assert whole.loc[held["group"], "rows"] == inside.sum() == recorded.loc[held["group"], "rows"] + held["rows"]
        assert whole.loc[held["group"], "selection_rate"] == said[inside].mean()
    given = model.report(frame.drop(columns="default"), y=frame["default"], sensitive_features=frame["region"])
    assert given["group"].tolist() == ["east", "north", "south"]


def command_output(place, *words):
    """Run the command and return its output as a file."""
    (place / "output.txt").write_text(command(place, *words))
    return place / "output.txt"


def test_rows_that_do_not_fit_are_named(tmp_path):
    frame = fitted_by_the_command(tmp_path)
    model = thalweg.load(str(tmp_path / "m" / "model.json"))
    for X, sentence in [
        (frame.rename(columns={"limit": "limits"}), "^X has no column 'limit'; did you mean 'limits'\\?$"),
        (
            frame.assign(limit=frame["limit"].astype(str).where(frame.index != 3, "12x")),
            "^X, row 3: '12x' in column 'limit' is not",
        ),
        (pd.concat([frame, frame[["job"]]], axis=1), "^X has 2 columns called 'job'; expected one$"),
        (np.zeros((2, 7)), "^X must be a frame with the columns 'limit', 'status', 'months', 'job', 'code', …, got ndarray$"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            model.predict(X)
    with pytest.warns(
        thalweg.DataWarning, match="column 'sex': 1 row has a value that the model was not trained on, such as 'x'"
    ):
        model.predict(frame.assign(sex=frame["sex"].where(frame.index != 0, "x")))
    with pytest.raises(ValueError, match="^sensitive_features must have the groups of the rows, which X does not have$"):
        model.report(frame)
    with pytest.raises(ValueError, match="^y must have the labels of the rows; X has no column 'default' with them$"):
        model.report(frame.drop(columns="default"), sensitive_features=frame["sex"])


def test_files_that_are_no_models_are_refused(tmp_path):
    fitted_by_the_command(tmp_path)
    good = json.loads((tmp_path / "m" / "model.json").read_text())
    with pytest.raises(FileNotFoundError, match="none.json: there is no such file"):
        thalweg.load(tmp_path / "none.json")
    for change, sentence in [
        (lambda m: m.update(format=2), "has model format 2: this one reads format 1; a newer thalweg wrote it"),
        (lambda m: m.update(extra=1), "is a damaged model: unknown field `extra`"),
        (lambda m: m["weights"].pop(), "is a damaged model: it has [0-9]+ weights for [0-9]+ features"),
        (lambda m: m["weights"][0].update(feature="wage"), "a weight of 'wage' where its encoding has the feature 'limit'"),
        (
            lambda m: m["input"]["table"]["encoding"]["columns"][0].update(deviation=0.0),
            "the encoding of column 'limit' is damaged",
        ),
        (lambda m: m["input"]["table"]["encoding"].update(version=9), "the encoding has version 9"),
    ]:
        model = json.loads(json.dumps(good))
        change(model)
        (tmp_path / "bad.json").write_text(json.dumps(model))
        with pytest.raises(ValueError, match=sentence):
            thalweg.load(tmp_path / "bad.json")
    (tmp_path / "bad.json").write_bytes(pickle.dumps(good))
    with pytest.raises(ValueError, match="is not a model"):
        thalweg.load(tmp_path / "bad.json")


def numbers(rows=1000, seed=1):
    """Return a frame of numbers, labels and two group columns."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.integers(18, 80, rows), "amount": rng.gamma(2.0, 1e5, rows), "rate": rng.normal(size=rows)})
    groups = pd.DataFrame({"sex": rng.choice(["f", "m"], rows), "race": rng.choice(["a", "b", "c"], rows)})
    y = pd.Series(
        (X["age"] / 20 + X["amount"] / 2e5 + X["rate"] + (groups["sex"] == "m") + rng.normal(size=rows) > 4.5).astype(int),
        name="paid",
    )
    return X, y, groups


def test_a_fitted_classifier_is_used_by_the_command(tmp_path):
    X, y, groups = numbers()
    model = FairClassifier(bound=0.05).fit(X, y, sensitive_features=groups["sex"])
    file = model.save(tmp_path)
    assert file == str(tmp_path / "model.json")
    X.join(groups).assign(paid=y).to_csv(tmp_path / "rows.csv", index=False)
    predictions = pd.read_csv(
        command_output(tmp_path, "predict", "model.json", "rows.csv"), converters={"score": float, "probability": float}
    )
    np.testing.assert_allclose(predictions["score"], model.decision_function(X), rtol=0, atol=1e-11)
    assert predictions["label"].tolist() == model.predict(X).tolist()
    loaded = thalweg.load(file)
    assert loaded.classes_.tolist() == [0, 1] and loaded.classes_.dtype.kind == "i"
    assert np.array_equal(loaded.decision_function(X), predictions["score"].to_numpy())
    text = command(tmp_path, "explain", "model.json")
    assert "trained on rows in memory, seed 0; predicts '1' for a score above 0, else '0'" in text
    assert "(the weight of a column of numbers is per unit)" in text and "\nf " in text
    # Everything is measured again on the rows, which the file of the classifier does not have.
    refused = command(tmp_path, "certify", "model.json", code=2)
    assert "was trained on rows in memory, not on a file; give a file of rows with --data FILE" in refused
    found = json.loads(command(tmp_path, "certify", "model.json", "--data", "rows.csv", "--json"))
    assert found["feasible"] and found["rows"] == len(y)
    assert found["constraints"][0]["measured"] == pytest.approx(model.constraints_[0]["measured"], abs=1e-12)
    assert not any("sha256" in note["text"] or "changed after training" in note["text"] for note in found["notes"])
    pd.testing.assert_frame_equal(loaded.report(), model.report())
    pd.testing.assert_frame_equal(loaded.report(X.join(groups).assign(paid=y)), model.report())
    # A model of complete rows refuses a missing number rather than to guess one.
    (tmp_path / "gap.csv").write_text("age,amount,rate\n30,1e5,\n")
    refused = command(tmp_path, "predict", "model.json", "gap.csv", code=2)
    assert "gap.csv, line 2: the cell in column 'rate' is missing; the model was fitted to complete rows" in refused


def test_several_sensitive_columns_are_reported_one_by_one(tmp_path):
    X, y, groups = numbers()
    model = FairClassifier(bound=0.1).fit(X, y, sensitive_features=groups)
    assert model.groups_ == ["f, a", "f, b", "f, c", "m, a", "m, b", "m, c"]
    report = model.report()
    assert report["by"].tolist() == ["sex, race"] * 6 + ["sex"] * 2 + ["race"] * 3
    said = model.predict(X) == 1
    for by, group, rows, rate in zip(report["by"], report["group"], report["rows"], report["selection_rate"]):
        inside = (groups["sex"] + ", " + groups["race"] if "," in by else groups[by]) == group
        assert (rows, rate) == (inside.sum(), pytest.approx(said[inside].mean(), abs=1e-12))
    rates = report["selection_rate"][:6]
    assert rates.max() - rates.min() <= 0.1 + 1e-9
    pd.testing.assert_frame_equal(model.report(X, y, sensitive_features=groups), report)
    array = FairClassifier(bound=0.1).fit(X, y, sensitive_features=groups.to_numpy())
    assert np.array_equal(array.coef_, model.coef_)
    assert set(array.report()["by"]) == {"group1, group2", "group1", "group2"}
    # The command divides the rows of a table in the same way.
    model.save(tmp_path / "model.json")
    X.join(groups).assign(paid=y).to_csv(tmp_path / "rows.csv", index=False)
    found = json.loads(command(tmp_path, "certify", "model.json", "--data", "rows.csv", "--json"))
    assert found["constraints"][0]["measured"] == pytest.approx(rates.max() - rates.min(), abs=1e-12)
    assert "training rows by race" in command(tmp_path, "explain", "model.json")
    command(tmp_path, "fit", "rows.csv", "--label", "paid", "--group", "sex", "--group", "race", "--out", "m", "--quiet")
    there = thalweg.load(tmp_path / "m").report(X.join(groups).assign(paid=y))
    assert there[["by", "group", "rows"]].to_dict() == report[["by", "group", "rows"]].to_dict()


def test_arrays_sparse_rows_weights_and_models_without_intercept(tmp_path):
    X, y, _ = numbers()
    rows = (X / X.std()).to_numpy()
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    model = ConstrainedClassifier(subject_to="false_positive_rate <= 0.1", fit_intercept=False)
    model.fit(rows, np.where(y == 1, "good", "bad"), sample_weight=weights)
    loaded = thalweg.load(model.save(tmp_path / "model.json"))
    assert loaded.columns_ == ["x0", "x1", "x2"]
    np.testing.assert_allclose(loaded.decision_function(rows), model.decision_function(rows), rtol=0, atol=1e-12)
    assert loaded.predict(sparse.csr_matrix(rows)).tolist() == model.predict(rows).tolist()
    table = pd.DataFrame(rows, columns=["x0", "x1", "x2"]).assign(label=np.where(y == 1, "good", "bad"), weight=weights)
    table.to_csv(tmp_path / "rows.csv", index=False)
    found = json.loads(command(tmp_path, "certify", "model.json", "--data", "rows.csv", "--json"))
    assert found["constraints"][0]["measured"] == pytest.approx(model.constraints_[0]["measured"], abs=1e-12)
    assert found["certificate"]["upper"] < 0.1
    with pytest.raises(ValueError, match="^X has 2 columns; the model was trained on 3$"):
        loaded.predict(rows[:, :2])
    thin = ConstrainedClassifier().fit(sparse.csr_matrix(rows), np.where(y == 1, 1, -1))
    loaded = thalweg.load(thin.save(tmp_path / "thin.json"))
    lines = [f"{label} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row)) for label, row in zip(2 * y - 1, rows.tolist())]
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    predictions = pd.read_csv(
        command_output(tmp_path, "predict", "thin.json", "rows.svm"), converters={"score": float, "probability": float}
    )
    assert np.array_equal(predictions["score"], loaded.decision_function(rows))
    assert predictions["label"].tolist() == thin.predict(rows).tolist()
    assert np.allclose(predictions["probability"], loaded.predict_proba(rows)[:, 1], rtol=1e-15)
    assert json.loads(command(tmp_path, "certify", "thin.json", "--data", "rows.svm", "--json"))["feasible"]


def test_a_threshold_that_was_set_after_training_is_saved(tmp_path):
    X, y, _ = numbers(2000)
    model = NeymanPearsonClassifier(max_fpr=0.1, delta=0.1).fit(X, y)
    loaded = thalweg.load(model.save(tmp_path / "model.json"))
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    recorded = loaded.measured_["constraints"][0]
    assert recorded["measured"] == loaded.measured_["training"]["measured"][0]
    assert loaded.measured_["stationary"] is None


def test_what_cannot_be_saved_is_refused(tmp_path):
    X, y, groups = numbers(300)
    model = FairClassifier(bound=0.3)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model.json")
    model.fit(X, y, sensitive_features=groups)
    with pytest.raises(ValueError, match="^group must name 2 columns, got 1$"):
        model.save(tmp_path / "model.json", group="sex")
    with pytest.raises(ValueError, match="^label must be another column than the features, got 'age'$"):
        model.save(tmp_path / "model.json", label="age")
    with pytest.raises(OSError, match="no such file"):
        model.save(tmp_path / "none" / "model.json")
    assert not list(tmp_path.iterdir())
    assert not hasattr(thalweg.KernelConstrainedClassifier(), "save")


def runs_of(model, feed):
    """Return the outputs of every installed runtime."""
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    found = [ReferenceEvaluator(model).run(["label", "score"], feed)]
    try:
        import onnxruntime
    except ImportError:
        return found
    assert onnx is not None
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [*found, session.run(["label", "score"], feed)]


def test_an_onnx_model_has_the_encoding(tmp_path):
    pytest.importorskip("onnx")
    frame = fitted_by_the_command(tmp_path, *FAIR)
    frame.loc[0, ["job", "months"]] = ["a new one", np.nan]
    model = thalweg.load(tmp_path / "m")
    exported = model.to_onnx(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == exported.SerializeToString()
    assert [entry.name for entry in exported.graph.input] == model.columns_
    text = ("job", "code", "sex", "region")
    feed = {
        name: frame[[name]].fillna("").astype(str).to_numpy(dtype=object) if name in text else frame[[name]].to_numpy(np.float64)
        for name in model.columns_
    }
    for labels, scores in runs_of(exported, feed):
        np.testing.assert_allclose(scores, model.decision_function(frame), rtol=0, atol=1e-12)
        assert list(labels) == model.predict(frame).tolist()


def test_onnx_models_of_fitted_classifiers():
    pytest.importorskip("onnx")
    X, y, groups = numbers()
    by_name = FairClassifier(bound=0.05).fit(X, y, sensitive_features=groups["sex"])
    feed = {name: X[[name]].to_numpy(np.float64) for name in X}
    for labels, scores in runs_of(by_name.to_onnx(), feed):
        np.testing.assert_allclose(scores, by_name.decision_function(X), rtol=0, atol=1e-10)
        assert labels.tolist() == by_name.predict(X).tolist()
    rows = X.to_numpy(np.float64)
    for classes in (y == 1, np.where(y == 1, "good", "bad"), np.where(y == 1, 3.0, -2.0)):
        model = ConstrainedClassifier(subject_to=demographic_parity(groups["sex"]) <= 0.1).fit(rows, classes)
        for labels, scores in runs_of(model.to_onnx(), {"X": rows}):
            np.testing.assert_allclose(scores, model.decision_function(rows), rtol=0, atol=1e-10)
            assert list(labels) == model.predict(rows).tolist()


def test_without_onnx_the_export_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    X, y, _ = numbers(200)
    with pytest.raises(ImportError, match="install it with pip install 'thalweg\\[onnx\\]'"):
        ConstrainedClassifier().fit(X, y).to_onnx()
