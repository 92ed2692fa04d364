"""whylat-fleet: which host, link, switch or application makes connections slow together.

Reads the dataset that agents write on every host (docs/fleet/dataset.md) and asks one portable SQL text per question
of an engine (DuckDB by default). So far: which files hold a window (`dataset`), and SNAP's average correlation
coefficients of sets of connections (`algebra`).
"""

__version__ = "0.1.0"
