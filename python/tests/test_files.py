"""Files that Python writes and reads: whole files only, and no code from files that are not pickles."""

import os
import pickle
import subprocess
import sys
import textwrap

import pytest

import thalweg

#: Makes a model and a certificate, each with a file of more than a kilobyte; `write` is replaced by the call under test.
_PROGRAM = """
import resource, sys
import numpy as np, thalweg

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 40))
model = thalweg.ConstrainedClassifier().fit(X, (X[:, 0] > 0).astype(int))
proof = thalweg.certify(lambda x: abs(x[0]), [0.5], jac=lambda x: [1.0 if x[0] > 0 else -1.0], rho=0.0, record=True)
file = sys.argv[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))
try:
    {write}
except OSError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files")
@pytest.mark.parametrize(
    ("write", "needs"),
    [("model.save(file)", None), ("proof.save(file)", None), ("model.to_onnx(file)", "onnx")],
)
@pytest.mark.parametrize("old", [None, "the old file\n"])
def test_a_file_that_does_not_fit_leaves_the_old_one(tmp_path, write, needs, old):
    if needs is not None:
        pytest.importorskip(needs)
    file = tmp_path / "out.json"
    if old is not None:
        file.write_text(old)
    program = textwrap.dedent(_PROGRAM).format(write=write)
    ran = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and "out.json" in ran.stdout and "File too large" in ran.stdout, (ran.stdout, ran.stderr)
    assert os.listdir(tmp_path) == ([] if old is None else ["out.json"])
    assert old is None or file.read_text() == old


class _Planted:
    """Object whose pickle makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickle_is_refused_where_other_files_are_read(tmp_path):
    marker = str(tmp_path / "executed")
    file = tmp_path / "model.json"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        file.write_bytes(pickle.dumps(_Planted(marker), protocol))
        for read in (thalweg.load, thalweg.check):
            with pytest.raises(ValueError, match=r"model\.json|certificate"):
                read(file)
        assert not os.path.exists(marker)
