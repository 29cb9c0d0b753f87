"""Tuning tasks on the data that scikit-learn bundles.

`hpo`: seven. Four are surrogates: small networks fitted to the logarithm of the loss of 300 real trainings each
(data/tables.npz; smooth, which flatters a Gaussian process). Three train for real, with conditions.
`trained`: eight more that train for real, in some 50 ms. Optima are the best values known (data/optima.json)."""
import functools
import math
import warnings

import numpy as np

from .spaces import Problem, choice, encode, integer, real

# ---- surrogates of recorded trainings --------------------------------------------------------------

MLP = [real("lr", 1e-4, 1e-1, True), real("alpha", 1e-7, 1, True), integer("batch", 8, 256, True),
       integer("hidden", 4, 128, True), integer("layers", 1, 3), choice("act", "relu", "tanh", "logistic"),
       choice("solver", "adam", "sgd"), real("momentum", 0.3, 0.99, False, ("solver", "sgd"))]
BOOST = [real("lr", 5e-3, 1, True), integer("trees", 5, 120, True), integer("max_depth", 1, 8),
         real("subsample", 0.2, 1), integer("min_leaf", 1, 60, True), real("max_features", 0.05, 1)]
FOREST = [integer("trees", 3, 60, True), integer("max_depth", 2, 20), integer("min_split", 2, 40, True),
          real("max_features", 0.02, 1), choice("criterion", "gini", "entropy"), choice("bootstrap", True, False),
          choice("class_weight", "none", "balanced")]


def surrogate(name, space, tables):
    """The mean of some networks' outputs is the standardised log loss; three layers each, tanh between them."""
    def f(params):
        t, x, total = tables(), encode(space, params), 0.0
        n = int(t[name + "/nets"])
        for i in range(n):
            h = x
            for j in range(3):
                h = h @ t[f"{name}/{i}/W{j}"] + t[f"{name}/{i}/b{j}"]
                if j < 2:
                    h = np.tanh(h)
            total += h[0]
        return float(math.exp(total / n * t[name + "/scale"] + t[name + "/mean"]))

    return f


# ---- real trainings ---------------------------------------------------------------------------------


@functools.lru_cache(None)
def data(name, n=None):
    """Standardised; the same order, and the same first n, always."""
    from sklearn import datasets
    x, y = getattr(datasets, "load_" + name)(return_X_y=True)
    some = np.random.default_rng(7).permutation(len(y))[:n]
    x, y = x[some], y[some]
    x = (x - x.mean(0)) / (x.std(0) + 1e-9)
    if name == "diabetes":
        y = (y - y.mean()) / y.std()
    return x, y


def squared(m, x, y):
    return np.minimum((m.predict(x) - y) ** 2, 25).sum()


def wrong(m, x, y):
    return (m.predict(x) != y).sum()


def log_loss(m, x, y):
    p = m.predict_proba(x) if hasattr(m, "predict_proba") else softmax(m.decision_function(x))
    return -np.log(np.clip(p[np.arange(len(y)), y], 1e-3, 1)).sum()


def softmax(z):
    z = np.column_stack([-z, z]) if z.ndim == 1 else z
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def cross_validated(make, name, loss, n=None, folds=2):
    """Mean loss of a sample over fixed folds."""
    x, y = data(name, n)
    fold, total = np.arange(len(y)) % folds, 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(folds):
            total += loss(make().fit(x[fold != i], y[fold != i]), x[fold == i], y[fold == i])
    return float(total / len(y))


CURVED = ("kernel", "rbf", "poly", "sigmoid")
SVM = [choice("kernel", "linear", "rbf", "poly", "sigmoid"), real("C", 1e-3, 1e3, True),
       real("gamma", 1e-5, 10, True, CURVED), integer("degree", 2, 5, False, ("kernel", "poly")),
       real("coef0", 0, 2, False, ("kernel", "poly", "sigmoid"))]
SVR = SVM + [real("epsilon", 1e-3, 1, True)]
KNN, SVR_OF, CART = ("model", "knn"), ("model", "svr"), ("model", "tree")
CASH = [choice("model", "knn", "svr", "tree"), integer("k", 1, 60, True, KNN),
        choice("weights", "uniform", "distance", when=KNN), real("p", 1, 3, False, KNN),
        real("C", 1e-3, 1e3, True, SVR_OF), real("epsilon", 1e-3, 1, True, SVR_OF),
        real("gamma", 1e-5, 1, True, SVR_OF), integer("max_depth", 1, 12, False, CART),
        integer("min_leaf", 1, 80, True, CART)]


def svc(name, loss, n=None):
    def f(params):
        from sklearn.svm import SVC
        return cross_validated(lambda: SVC(max_iter=1000, **params), name, loss, n)
    return f


def svr(params):
    from sklearn.svm import SVR
    return cross_validated(lambda: SVR(max_iter=1000, **params), "diabetes", squared)


def cash(params):
    """Which model, and its parameters."""
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.svm import SVR
    from sklearn.tree import DecisionTreeRegressor
    p = {k: v for k, v in params.items() if k != "model"}

    def make():
        if params["model"] == "knn":
            by = "brute" if p["p"] == 2 else "auto"
            return KNeighborsRegressor(p["k"], weights=p["weights"], p=p["p"], algorithm=by)
        if params["model"] == "svr":
            return SVR(max_iter=1000, **p)
        return DecisionTreeRegressor(max_depth=p["max_depth"], min_samples_leaf=p["min_leaf"], random_state=0)

    return cross_validated(make, "diabetes", squared)


SMALL_FOREST = [integer("trees", 2, 12, True)] + FOREST[1:]
SMALL_BOOST = [real("lr", 1e-2, 1, True), integer("trees", 2, 6), integer("max_depth", 1, 5)] + BOOST[3:]
SMALL_MLP = [real("lr", 1e-4, 1e-1, True), real("alpha", 1e-6, 10, True), integer("batch", 16, 128, True),
             integer("hidden", 2, 64, True), choice("act", "relu", "tanh", "logistic"), choice("solver", "adam", "sgd"),
             real("momentum", 0.3, 0.99, False, ("solver", "sgd")), integer("epochs", 3, 15)]


def forest(name, n=None):
    def f(params):
        from sklearn.ensemble import RandomForestClassifier
        p = {k: params[k] for k in ("max_depth", "max_features", "criterion", "bootstrap")}
        p |= {"n_estimators": params["trees"], "min_samples_split": params["min_split"],
              "class_weight": None if params["class_weight"] == "none" else "balanced"}
        return cross_validated(lambda: RandomForestClassifier(random_state=0, **p), name, log_loss, n)
    return f


def boost(name, n=None):
    def f(params):
        from sklearn.ensemble import GradientBoostingClassifier
        p = {k: params[k] for k in ("max_depth", "subsample", "max_features")}
        p |= {"learning_rate": params["lr"], "n_estimators": params["trees"], "min_samples_leaf": params["min_leaf"]}
        return min(cross_validated(lambda: GradientBoostingClassifier(random_state=0, **p), name, log_loss, n), 3.0)
    return f


def mlp(name, n=None):
    def f(params):
        from sklearn.neural_network import MLPClassifier
        p = {"hidden_layer_sizes": (params["hidden"],), "activation": params["act"], "solver": params["solver"],
             "alpha": params["alpha"], "batch_size": params["batch"], "learning_rate_init": params["lr"],
             "momentum": params.get("momentum", 0.9), "max_iter": params["epochs"]}
        try:
            return min(cross_validated(lambda: MLPClassifier(random_state=0, **p), name, log_loss, n), 3.0)
        except ValueError:  # it diverged
            return 3.0
    return f


# ---- the list ----------------------------------------------------------------------------------------


def tasks(tables):
    """`tables()` gives the surrogates' weights, by name."""
    def one(name, group, space, f, needs=None):
        return Problem(name, group, space, lambda seed: (f, None), needs=needs)

    real_ = [("svm_breast", "hpo", SVM, svc("breast_cancer", wrong)), ("svr_diabetes", "hpo", SVR, svr),
             ("cash_diabetes", "hpo", CASH, cash), ("wine_svm", "trained", SVM, svc("wine", log_loss)),
             ("digits_svm", "trained", SVM, svc("digits", log_loss, 300)),
             ("wine_forest", "trained", SMALL_FOREST, forest("wine")),
             ("breast_forest", "trained", SMALL_FOREST, forest("breast_cancer", 300)),
             ("wine_boost", "trained", SMALL_BOOST, boost("wine")),
             ("breast_boost", "trained", SMALL_BOOST, boost("breast_cancer", 200)),
             ("wine_mlp", "trained", SMALL_MLP, mlp("wine")), ("digits_mlp", "trained", SMALL_MLP, mlp("digits", 250))]
    recorded = [("mlp_digits", MLP), ("mlp_diabetes", MLP), ("gb_breast", BOOST), ("rf_digits", FOREST)]
    return ([one(name, "hpo", space, surrogate(name, space, tables)) for name, space in recorded]
            + [one(*row, needs="sklearn") for row in real_])
