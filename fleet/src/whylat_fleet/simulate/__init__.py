"""A simulated data centre: the dataset that agents would have written, with culprits that are known.

`layout` makes hosts, switches, applications and connections, `problems` what they suffer by chance, `plants` what a
culprit does to them, `write` the files. Needs numpy: `pip install 'whylat-fleet[simulate]'`.
"""
