"""The page of kernels is generated: who wants to change its words changes the generator, too."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import page  # noqa: E402


class PageTest(unittest.TestCase):
    def test_words_of_the_page_are_those_of_its_generator(self):
        written = (HERE.parents[1] / "docs/kernels.md").read_text()
        self.assertEqual(written[: len(page.HEAD)], page.HEAD)


if __name__ == "__main__":
    unittest.main()
