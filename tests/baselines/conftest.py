import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io


@pytest.fixture(scope="session")
def small():
    """Three classes of 5 x 5 covariances that differ in one direction each; 20 of each."""
    rng = np.random.default_rng(7)
    y = np.repeat(["a", "b", "c"], 20)
    frames = rng.standard_normal((60, 5, 30))
    for k, label in enumerate("abc"):
        frames[y == label, k] *= 2.5
    return frames @ frames.mT / 30, y


@pytest.fixture(scope="session")
def toy():
    """The 30 x 30 toy set: (X_train, y_train, X_test, y_test), 200 each."""
    root = os.environ.get("SPDSL_DATA")
    if not root:
        pytest.skip("needs real data: set SPDSL_DATA to the folder that holds toy_30x30.mat")
    data = scipy.io.loadmat(Path(root) / "toy_30x30.mat", squeeze_me=True, struct_as_record=False)["covD_Struct"]
    return np.moveaxis(data.trn_X, -1, 0), data.trn_y, np.moveaxis(data.tst_X, -1, 0), data.tst_y
