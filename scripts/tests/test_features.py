"""Tests scripts/features: which packages it names."""

import importlib.machinery
import importlib.util
import sys
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "features"
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("features", str(SCRIPT))
features = importlib.util.module_from_spec(importlib.util.spec_from_loader("features", loader))
loader.exec_module(features)


def compare(program: str, tests: str) -> list[str]:
    return features.compare(features.read_tree(program), features.read_tree(tests))


class Features(unittest.TestCase):
    def test_a_feature_that_only_tests_want_is_named(self):
        self.assertEqual(
            compare("prost v0.14.6|derive,std", "prost v0.14.6|default,derive,std"),
            ["prost v0.14.6: the program has derive,std; tests have default,derive,std"],
        )

    def test_equal_features_are_fine_however_often_they_are_listed(self):
        self.assertEqual(compare("a v1|x\na v1|x (*)\nb v1|", "b v1|\na v1|x"), [])

    def test_a_package_of_tests_alone_is_fine(self):
        self.assertEqual(compare("a v1|x", "a v1|x\nproptest v1|std"), [])

    def test_features_of_build_scripts_may_differ_from_those_of_the_program(self):
        self.assertEqual(compare("syn v2|full\nsyn v2|derive", "syn v2|derive\nsyn v2|full"), [])


if __name__ == "__main__":
    unittest.main()
