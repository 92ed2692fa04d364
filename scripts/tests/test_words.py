"""Tests scripts/words: which words it finds where, and that the tree has none."""

import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "words"
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("words", str(SCRIPT))
words = importlib.util.module_from_spec(importlib.util.spec_from_loader("words", loader))
sys.modules["words"] = words
loader.exec_module(words)

ENTRIES = words.read_entries(SCRIPT.parent / "words.list")


def found(text: str, path: str = "a.rs") -> list[tuple[int, str]]:
    """Returns line and word of everything that is found in a file with this text."""
    return [(place.line, place.entry.word) for place in words.search(path, text, ENTRIES)]


class Finding(unittest.TestCase):
    def test_word_is_found_in_text_and_as_part_of_a_name(self):
        for text in ("it was told.", "let is_told = 1;", "fn told_ns()", "struct ToldNames;", "const TOLD_NS", "isTold"):
            self.assertEqual(found(text), [(1, "told")], text)

    def test_word_within_another_word_is_not_found(self):
        for text in ("method", "parameters", "intellect", "metrics", "comets", "Stoodley"):
            self.assertEqual(found(text), [], text)

    def test_phrase_is_found_across_comment_lines(self):
        self.assertEqual(found("/// Two rows, of\n    /// which one is empty."), [(2, "of which")])
        self.assertEqual(found("data was sent \\\n     again"), [(2, "sent again")])

    def test_phrase_within_other_words_is_not_found(self):
        self.assertEqual(found("sent against its will"), [])

    def test_name_is_found_in_code_only(self):
        self.assertEqual(found('let way = 1; // on the way\nlet a = "on the way";'), [(1, "way")])
        self.assertEqual(found("It is on its way.", "a.md"), [])

    def test_name_of_a_file_is_found(self):
        self.assertEqual(found("", "src/entries_way.sql"), [(0, "way")])

    def test_type_of_one_participle_is_found(self):
        self.assertEqual(found("struct Gathered {"), [(1, "Gathered")])
        self.assertEqual(found("struct GatheredRows {"), [])
        self.assertEqual(found("let a: Gathered = b;"), [])

    def test_type_used_elsewhere_needs_two_words(self):
        self.assertEqual(found("pub(crate) struct Span {"), [(1, "Span")])
        self.assertEqual(found("struct Span {"), [])

    def test_long_sentence_of_markdown_is_found(self):
        long = "one " * (words.SENTENCE_MOST + 1)
        self.assertEqual([line for line, _ in found(f"# A\n\nShort. {long}end.\n", "a.md")], [3])
        for text in ("one " * 15 + ". One " * 15, f"```\n{long}\n```", f"`{long}`", f"| {long} |", "- one\n" * 31):
            self.assertEqual(found(text, "a.md"), [], text)

    def test_first_word_of_a_doc_comment_is_found(self):
        self.assertEqual(found("/// What it took.\nfn cost()"), [(1, "What")])
        self.assertEqual(found("/// Returns\n/// What it took.\nfn cost()"), [])
        self.assertEqual(found('def cost():\n    """What it took."""', "a.py"), [(2, "What")])

    def test_contract_is_left_as_it_is(self):
        self.assertEqual(found('{"troubled_connections": 1}'), [])

    def test_place_names_the_replacement(self):
        place = words.search("a.rs", "// mended", ENTRIES)[0]
        self.assertTrue(str(place).startswith("a.rs:1: mended → fixed"), str(place))


class Running(unittest.TestCase):
    def test_tree_has_no_banned_word(self):
        ended = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "", ""))

    def test_list_with_a_broken_line_is_an_error(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "words.list"
            path.write_text("[anywhere]\ntold\n")
            with self.assertRaisesRegex(words.Problem, "words.list:2: no entry: told"):
                words.read_entries(path)


if __name__ == "__main__":
    unittest.main()
