"""Tests scripts/imports: which circles it finds."""

import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "imports"
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("imports", str(SCRIPT))
imports = importlib.util.module_from_spec(importlib.util.spec_from_loader("imports", loader))
sys.modules["imports"] = imports
loader.exec_module(imports)


def found(files: dict[str, str]) -> list[str]:
    """Returns the circles of a crate with these files below its `src`."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "thing"
        for name, text in files.items():
            path = root / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return imports.check(root)


class Circles(unittest.TestCase):
    def test_two_files_that_use_each_other_are_a_circle(self):
        circles = found(
            {
                "lib.rs": "mod a;\nmod b;",
                "a.rs": "use crate::b::B;\npub struct A;",
                "b.rs": "pub struct B;\nfn f() -> super::a::A { super::a::A }",
            }
        )
        self.assertEqual(
            circles, ["thing: a circle of 2 files\n  src/a.rs → src/b.rs: B\n  src/b.rs → src/a.rs: A"]
        )

    def test_file_that_uses_what_its_folder_defines_is_in_a_circle(self):
        circles = found(
            {
                "lib.rs": "mod a;",
                "a/mod.rs": "mod b;\npub(super) const LEAST: u8 = 1;\nfn f() { b::g() }",
                "a/b.rs": "use super::LEAST;\npub fn g() {}",
            }
        )
        self.assertEqual(len(circles), 1)

    def test_name_counts_where_it_is_defined(self):
        circles = found(
            {
                "lib.rs": "mod a;",
                "a/mod.rs": "mod b;\nmod c;\npub use b::B;\npub(crate) use c::*;",
                "a/b.rs": "use super::C;\npub struct B;",
                "a/c.rs": "pub struct C;",
            }
        )
        self.assertEqual(circles, [])

    def test_name_that_is_handed_on_and_used_counts(self):
        circles = found(
            {
                "lib.rs": "mod a;",
                "a/mod.rs": "mod b;\npub use b::B;\npub struct A(B);",
                "a/b.rs": "use super::A;\npub struct B;\nfn f(_: A) {}",
            }
        )
        self.assertEqual(len(circles), 1)

    def test_tests_comments_and_strings_are_left_out(self):
        circles = found(
            {
                "lib.rs": "mod a;\nmod b;",
                "a.rs": "use crate::b::B;\npub struct A;",
                "b.rs": 'pub struct B;\n// crate::a::A\nconst T: &str = "crate::a::A";\n'
                "#[cfg(test)]\nmod tests { use crate::a::A; fn f() { {} } }",
            }
        )
        self.assertEqual(circles, [])


if __name__ == "__main__":
    unittest.main()
