"""Checks an installed wheel: fits a classifier under a constraint on embedded data and runs the command."""

import subprocess
import sys

import thalweg
from thalweg.datasets import load

a9a = load("a9a")
rows = slice(0, 2000)
model = thalweg.FairClassifier("demographic_parity", bound=0.05)
model.fit(a9a.data[rows], a9a.target[rows], sensitive_features=a9a.sensitive[rows])
print(thalweg.__version__, model.message_)
subprocess.run([sys.executable, "-m", "thalweg", "data", "list"], check=True)
