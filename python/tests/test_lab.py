"""Experiments and their store, compared with the command on the same store."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from thalweg import lab

pandas = pytest.importorskip("pandas")

SMALL = """
title = "A small experiment"
seeds = {seeds}
budget = {{ iterations = {iterations} }}
[data]
name = "german"
[problem]
minimize = "hinge"
subject_to = ["demographic_parity <= 0.05"]
domain = {{ ball = 10.0 }}
[[solver]]
label = "switching"
name = "ssg"
eta = {eta}
tol = 1e-3
batch_f = 50
"""


def spec(directory, *, seeds=2, iterations=60, eta="0.1", name="small.toml"):
    file = directory / name
    file.write_text(SMALL.format(seeds=seeds, iterations=iterations, eta=eta))
    return file


def command(*words):
    return subprocess.run(
        [sys.executable, "-m", "thalweg", "lab", *map(str, words)], capture_output=True, text=True, check=True
    ).stdout


def test_finished_runs_are_stored_and_reused(tmp_path):
    store, file = tmp_path / "kept.sqlite", spec(tmp_path)
    first = lab.run(file, store=store, verbose=0)
    assert first.attrs == {"experiment": "small", "worked": 2, "found": 0, "interrupted": False}
    assert first["seed"].tolist() == [0, 1] and first["iterations"].tolist() == [60, 60]
    assert set(first["status"]) <= {"feasible", "infeasible"} and first["objective"].notna().all()
    assert first["run"].is_unique and first["objective"].nunique() == 2
    again = lab.run(file, store=store, verbose=0)
    assert again.attrs["worked"] == 0 and again.attrs["found"] == 2
    pandas.testing.assert_frame_equal(first, again)
    # Only the additional seed is new.
    more = lab.run(spec(tmp_path, seeds=3), store=store, verbose=0, jobs=2)
    assert more.attrs["worked"] == 1 and more.attrs["found"] == 2 and len(more) == 3
    assert more["objective"].tolist()[:2] == first["objective"].tolist()
    fresh = lab.run(spec(tmp_path, seeds=3), store=store, verbose=0, fresh=True)
    assert fresh.attrs["worked"] == 3 and fresh["objective"].tolist() == more["objective"].tolist()


def test_read_agrees_with_the_command(tmp_path):
    store = tmp_path / "kept.sqlite"
    lab.run(spec(tmp_path, eta="[0.05, 0.1]"), store=store, verbose=0)
    frame = lab.read(store)
    told = json.loads(command("list", "--store", store, "--json"))
    assert len(frame) == len(told) == 4
    for row, line in zip(frame.to_dict("records"), told):
        for key in (
            "experiment",
            "run",
            "data",
            "problem",
            "solver",
            "cell",
            "seed",
            "tuned",
            "status",
            "objective",
            "violation",
            "iterations",
            "seconds",
            "ended",
        ):
            assert row[key] == line[key], key
        assert row["finished"] == pandas.Timestamp(line["finished"])
    exported = list(csv.DictReader(io.StringIO(command("export", "--store", store, "--csv"))))
    for name in ("objective", "passes_f", "passes_g", "samples"):
        assert frame[name].tolist() == pytest.approx([float(row[name]) for row in exported])
    assert sorted(settings["eta"] for settings in frame["settings"]) == [0.05, 0.05, 0.1, 0.1]
    assert frame["certificate_upper"].isna().all() and frame["method"].eq("ssg").all()
    # Runs of the command are included.
    other = spec(tmp_path, seeds=1, iterations=20, name="other.toml")
    command("run", other, "--store", store, "--quiet")
    assert set(lab.read(store)["experiment"]) == {"small", "other"}
    assert len(lab.read(store, "other")) == 1 and len(lab.read(store, experiment="small")) == 4
    assert lab.run(other, store=store, verbose=0).attrs["found"] == 1


def test_curves_are_the_recorded_iterates(tmp_path):
    store = tmp_path / "kept.sqlite"
    runs = lab.run(spec(tmp_path), store=store, verbose=0)
    curves = lab.read(store, curves=True)
    assert curves.columns.tolist()[:8] == ["experiment", "run", "data", "problem", "solver", "cell", "seed", "tuned"]
    assert "demographic_parity" in curves and "objective" in curves
    points = list(csv.DictReader(io.StringIO(command("export", "--store", store, "--csv", "--points"))))
    for run, part in curves.groupby("run"):
        for name in ("objective", "demographic_parity"):
            told = [(float(p["iteration"]), float(p["value"])) for p in points if p["run"] == run and p["name"] == name]
            assert told and part["iterations"].tolist() == [at for at, _ in told]
            assert part[name].tolist() == pytest.approx([value for _, value in told])
        assert part["seed"].nunique() == 1 and part["iterations"].iloc[-1] == 60
    assert set(curves["run"]) == set(runs["run"]) and curves["iterations"].dtype == np.int64
    nothing = lab.read(store, curves="certified")
    assert nothing.empty and "run" in nothing.columns
    pandas.testing.assert_frame_equal(lab.read(store, curves="recorded"), curves)


def test_certified_iterates_have_their_own_curves(tmp_path):
    file, store = tmp_path / "certified.toml", tmp_path / "kept.sqlite"
    text = SMALL.format(seeds=1, iterations=20, eta="0.1")
    file.write_text(text.replace("[data]", "certificate = { bounds = { width = 0.5, evaluations = 20 }, points = 3 }\n[data]", 1))
    runs = lab.run(file, store=store, verbose=0)
    certified = lab.read(store, "certified", curves="certified")
    assert runs.attrs["worked"] == 2 and len(certified) >= 2 and set(certified["run"]) == set(runs["run"])
    assert (runs["certificate_lower"] <= runs["certificate_upper"]).all()


def test_only_and_quick(tmp_path):
    store, file = tmp_path / "kept.sqlite", spec(tmp_path, eta="[0.05, 0.1]")
    some = lab.run(file, store=store, only="eta = 0.05", verbose=0)
    assert some.attrs["worked"] == 2
    # The others are planned and have only their identity.
    assert some["status"].isna().sum() == 2 and some["iterations"].isna().sum() == 2 and len(some) == 4
    with pytest.raises(ValueError, match="^no run has 'nobody' in its name; expected part of a name such as german") as refused:
        lab.run(file, store=store, only="nobody", verbose=0)
    assert "--" not in str(refused.value)
    file.write_text(file.read_text() + "[quick]\nseeds = 1\nbudget = { iterations = 5 }\n")
    quick = lab.run(file, store=tmp_path / "quick.sqlite", quick=True, verbose=0)
    assert quick["iterations"].tolist() == [5, 5]


def test_progress_is_shown_on_request(tmp_path, capsys):
    lab.run(spec(tmp_path), store=tmp_path / "a.sqlite", verbose=0)
    assert capsys.readouterr().err == ""
    lab.run(spec(tmp_path), store=tmp_path / "b.sqlite", verbose=2)
    err = capsys.readouterr().err
    assert err.count("objective ") == 2 and "switching" in err
    lab.run(spec(tmp_path), store=tmp_path / "b.sqlite", verbose=2)
    assert capsys.readouterr().err.count("found in the store") == 2


@pytest.mark.parametrize("tqdm", [True, False])
def test_progress_of_long_runs_goes_from_0_to_all(tmp_path, monkeypatch, tqdm):
    if not tqdm:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    seen = []
    update = lab._Board.update

    def watched(self, total, done, running, news):
        seen.append((total, done, running))
        update(self, total, done, running, news)

    monkeypatch.setattr(lab._Board, "update", watched)
    file = spec(tmp_path)
    file.write_text(
        file.read_text().replace("budget = { iterations = 60 }", "budget = { seconds = 1.0 }\nrecord = { every = 10 }")
    )
    lab.run(file, store=tmp_path / "a.sqlite", jobs=2)
    totals, done, names = zip(*seen)
    assert totals[-1] == 2 and done[-1] == 2.0 and np.all(np.isfinite(done)) and np.all(np.diff(done) >= -1e-9)
    assert any(0.0 < d < 2.0 for d in done) and any("switching" in name for line in names for name in line)


def test_progress_without_tqdm_is_lines(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    lab.run(spec(tmp_path), store=tmp_path / "a.sqlite")
    assert capsys.readouterr().err.count("\n") == 2


def test_ctrl_c_stops_the_experiment_and_finished_runs_stay(tmp_path, monkeypatch):
    store = tmp_path / "kept.sqlite"
    # One run finishes soon, the other would never end.
    file = tmp_path / "long.toml"
    text = SMALL.format(seeds=1, iterations=20, eta="0.1")
    endless = '[[solver]]\nlabel = "endless"\nname = "ssg"\neta = 0.1\ntol = 1e-3\nbudget = { iterations = 10000000000 }\n'
    file.write_text(text + endless)
    pressed = []

    def press_after_the_first(self, total, done, running, news):
        if done >= 1.0 and not pressed:
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(lab._Board, "update", press_after_the_first)
    runs = lab.run(file, store=store)
    assert runs.attrs["interrupted"] and time.monotonic() - pressed[0] < 20.0
    assert runs.set_index("solver")["status"].notna().to_dict() == {"switching": True, "endless": False}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # Only the finished run has a curve.
    assert lab.read(store, curves=True)["solver"].unique().tolist() == ["switching"]
    assert lab.read(store)["objective"].notna().sum() == 1


def test_exceptions_of_the_progress_report_are_raised(tmp_path, monkeypatch):
    def broken(self, *args):
        raise RuntimeError("the screen is gone")

    monkeypatch.setattr(lab._Board, "update", broken)
    with pytest.raises(RuntimeError, match="^the screen is gone$"):
        lab.run(spec(tmp_path), store=tmp_path / "a.sqlite")


def test_other_threads_run_in_the_meantime(tmp_path, ctrl_c):
    file = spec(tmp_path)
    file.write_text(file.read_text().replace("budget = { iterations = 60 }", "budget = { seconds = 30.0 }"))
    # With the interpreter's lock held, the other thread could not interrupt the run before its time is over.
    other = ctrl_c(ticks=20)
    runs = lab.run(file, store=tmp_path / "a.sqlite", verbose=0)
    assert runs.attrs["interrupted"] and other.ticked == 20


def test_invalid_arguments(tmp_path):
    store, file = tmp_path / "kept.sqlite", spec(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"^store .*none\.sqlite not found$"):
        lab.read(tmp_path / "none.sqlite")
    with pytest.raises(
        FileNotFoundError,
        match=r"^experiment file .*none\.toml not found$",
    ):
        lab.run(tmp_path / "none.toml", store=store)
    with pytest.raises(ValueError, match="^jobs must be a positive integer, got 0$"):
        lab.run(file, store=store, jobs=0)
    assert not store.exists()
    lab.run(file, store=store, verbose=0)
    with pytest.raises(ValueError, match=r"^unknown experiment 'smal'; did you mean 'small'\?$"):
        lab.read(store, "smal")
    with pytest.raises(TypeError, match="^experiment must be a string, got int$"):
        lab.read(store, 1)
    with pytest.raises(TypeError, match="^only must be a string, got int$"):
        lab.run(file, store=store, only=1)
    with pytest.raises(ValueError, match="^curves must be True, False, 'recorded' or 'certified', got 'all'$"):
        lab.read(store, curves="all")
    (tmp_path / "noise.sqlite").write_bytes(b"this is no store, whatever its name says" * 20)
    with pytest.raises(ValueError, match="noise.sqlite"):
        lab.read(tmp_path / "noise.sqlite")


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ("seeds = 2\n[data", "bad.toml"),
        ("seeds = 2\n", "bad.toml"),
        (SMALL.format(seeds=1, iterations=5, eta="0.1").replace("ssg", "sgs"), "sgs"),
    ],
)
def test_invalid_specs(tmp_path, wrong, sentence):
    file = tmp_path / "bad.toml"
    file.write_text(wrong)
    with pytest.raises(ValueError, match=sentence):
        lab.run(file, store=tmp_path / "kept.sqlite", verbose=0)
    assert not (tmp_path / "kept.sqlite").exists()
