"""whylat-fleet: which host, link, switch or application makes connections slow together.

Reads the dataset that agents write on every host (docs/fleet/dataset.md) and asks one portable SQL text per question
of an engine (DuckDB by default): which files hold a window (`dataset`), SNAP's average correlation coefficients of sets
of connections (`algebra`), and which of the resources that connections share explains them best (`blame`).
"""

__version__ = "0.1.0"
