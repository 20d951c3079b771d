"""The users' alternatives against the pipelines that users would write themselves."""

import numpy as np
import pytest
from pyriemann.classification import MDM
from pyriemann.tangentspace import TangentSpace
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import spdsl
from spdsl.estimators.discriminant import SpanLedoitWolf


def test_tangent_space_lda_is_the_usual_pipeline(small):
    X, y = small
    usual = make_pipeline(TangentSpace(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))
    ours = spdsl.TangentSpaceClassifier("lda").fit(X[::2], y[::2])
    assert np.array_equal(ours.predict(X[1::2]), usual.fit(X[::2], y[::2]).predict(X[1::2]))


def test_rotation_does_not_change_logistic_regression(small):
    X, y = small
    few = np.r_[0:4, 20:24, 40:44]  # 12 vectors of length 15
    ours = spdsl.TangentSpaceClassifier("logistic", C=0.5).fit(X[few], y[few])
    V = ours.transform(X)
    direct = LogisticRegression(C=0.5 / V[few].var(axis=0).mean(), max_iter=5000, tol=1e-8).fit(V[few], y[few])
    assert "rotate" in ours.model_.named_steps
    assert np.allclose(ours.model_.predict_proba(V), direct.predict_proba(V), atol=1e-3)


def test_shrinkage_in_the_span_is_that_of_the_full_vectors():
    V = np.random.default_rng(0).standard_normal((12, 40)) * np.linspace(1, 3, 40)
    pca = PCA(svd_solver="full").fit(V)
    ours = SpanLedoitWolf(40).fit(pca.transform(V))
    covariance, shrinkage = ledoit_wolf(V)
    assert np.isclose(ours.shrinkage_, shrinkage)
    assert np.allclose(ours.covariance_, pca.components_ @ covariance @ pca.components_.T)


def test_mdm_is_pyriemanns(small):
    X, y = small
    assert np.array_equal(spdsl.MDM().fit(X, y).predict(X), MDM().fit(X, y).predict(X))


def test_unknown_classifier(small):
    with pytest.raises(ValueError, match="classifier must be"):
        spdsl.TangentSpaceClassifier("forest").fit(*small)
