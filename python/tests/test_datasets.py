"""Data sets by name, compared with the command."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import sparse

import thalweg
from thalweg import datasets


def info(name):
    done = subprocess.run(
        [sys.executable, "-m", "thalweg", "data", "info", name, "--json"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["a9a", "german"])
def test_rows_agree_with_the_command(name):
    found, told = datasets.load(name), info(name)["counts"]
    # For a raw table the command also reports the prepared rows.
    counts = told["prepared"] or told
    assert found.data.shape == (counts["rows"], counts["columns"])
    assert found.fingerprint == told["fingerprint"]
    assert {f"{label:+.0f}": int(n) for label, n in zip(*np.unique(found.target, return_counts=True))} == {
        label["label"]: label["rows"] for label in counts["labels"]
    }
    for group in counts["groups"]:
        rows = found.sensitive == group["name"]
        assert rows.sum() == group["rows"]
        assert (found.target[rows] > 0).sum() == group["positive"]
    assert found.group_names == [group["name"] for group in counts["groups"]]
    assert found.notes == [] and found.name == name


def test_a9a_is_a_proper_sparse_matrix_in_two_parts():
    a9a = datasets.load("a9a")
    assert sparse.issparse(a9a.data) and a9a.data.format == "csr" and a9a.data.dtype == np.float64
    assert a9a.data.indices.dtype == np.int32 and a9a.data.has_canonical_format
    assert a9a.n_train == 32561 and a9a.data.shape[0] - a9a.n_train == 16281
    assert set(np.unique(a9a.data.data)) == {1.0}
    # The first row of the published file is -1 3:1 11:1 14:1 …
    assert a9a.target[0] == -1.0 and a9a.data[[0], :].indices[:3].tolist() == [2, 10, 13]
    # Columns 72 and 73, from 1, are female and male.
    female = np.asarray(a9a.data[:, [71]].todense()).ravel() == 1.0
    assert np.array_equal(female, a9a.sensitive == "female")
    # Published: 7,841 positives in the training part.
    assert (a9a.target[: a9a.n_train] > 0).sum() == 7841


def test_arrays_are_copies():
    one = datasets.load("german")
    one.data.data[:] = 0.0
    one.target[:] = 0.0
    two = datasets.load("german")
    assert np.any(two.data.data != 0.0) and set(np.unique(two.target)) == {-1.0, 1.0}


def test_adult_is_a_table_with_numbers_words_and_missing_cells():
    adult = datasets.load_table("adult")
    assert adult.attrs["n_train"] == 32561 and len(adult) == 48842
    for column in ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"):
        name = column if column in adult else column.replace("-", "_")
        assert adult[name].dtype == np.int64, name
    assert adult["age"].iloc[0] == 39
    # Published: 2,799 + 2,809 + 857 cells are unknown.
    assert int(adult.isna().sum().sum()) == 6465
    assert not (adult == "?").any().any()
    a9a = datasets.load("a9a")
    assert np.array_equal((adult["income"] == ">50K").to_numpy(), a9a.target > 0)
    assert np.array_equal(adult["sex"].str.lower().to_numpy(), a9a.sensitive)


@pytest.mark.filterwarnings("ignore:.*was not checked")
def test_files_are_found_and_differing_copies_give_a_warning(tmp_path):
    row = lambda label, sex: f"{label} " + " ".join(f"{c}:{sex if c == 7 else 3}" for c in range(1, 25))
    (tmp_path / "german.numer").write_text("\n".join([row(1, 2), row(-1, 1), row(-1, 4)]) + "\n")
    with pytest.warns(UserWarning, match="german-numer has 3 rows here; the catalogue's copy has 1000"):
        found = datasets.load("german-numer", data_dir=tmp_path)
    assert found.target.tolist() == [1.0, -1.0, -1.0] and len(found.notes) == 2
    assert found.data.shape == (3, 24) and found.data.nnz == 72 and found.n_train is None
    known = datasets.list(data_dir=tmp_path).set_index("name")
    assert known.loc["german-numer", "where"] == str(tmp_path / "german.numer")
    assert known.loc["a9a", "where"] == "embedded" and known.loc["a9a", "rows"] == 48842


def test_numbers_with_missing_cells_are_floats(tmp_path):
    head = "id,sex,age,race,juv_fel_count,juv_misd_count,juv_other_count,priors_count,c_charge_degree,is_recid,odd,none\n"
    (tmp_path / "compas-scores.csv").write_text(head + "1,Male,50,Other,0,0,0,4,F,1,inf,\n2,Female,,Other,0,0,0,1,M,0,2.5,?\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = datasets.load_table("compas", data_dir=tmp_path)
    assert table["age"].iloc[0] == 50.0 and np.isnan(table["age"].iloc[1])
    assert table["priors_count"].dtype == np.int64
    # "inf" is a word, and a column without any value is no column of numbers.
    assert table["odd"].tolist() == ["inf", "2.5"] and table["none"].isna().all()


def test_unknown_names():
    with pytest.raises(ValueError, match=r"^unknown data set 'a9'; did you mean 'a9a'\?$"):
        datasets.load("a9")
    with pytest.raises(ValueError, match="adult is a raw table, not rows of numbers: sets that can be loaded are a9a"):
        datasets.load("adult")
    with pytest.raises(ValueError, match="a9a is not a raw table: raw tables are adult"):
        datasets.load_table("a9a")
    with pytest.raises(TypeError, match="^name must be the name of a data set such as 'a9a', got int$"):
        datasets.load(9)


def test_missing_data_set_error_is_actionable(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("THALWEG_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="the data set w8a is missing: put the file w8a.gz or w8a into one of the directories"):
        datasets.load("w8a")


def test_fit_accepts_loaded_data():
    german = datasets.load("german")
    fair = thalweg.learn.fit("logistic", "demographic_parity <= 0.05", X=german.data, y=german.target, sensitive=german.sensitive)
    rates = [np.mean(fair.predict(german.data)[german.sensitive == name] == 1.0) for name in german.group_names]
    assert fair.success and abs(rates[0] - rates[1]) <= 0.05 + 1e-6
