#!/usr/bin/env python3
"""Tests tools/api_reference.py: comments become documentation, and enumerators without a comment are found."""

import importlib.util
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "api_reference.py"
spec = importlib.util.spec_from_file_location("api_reference", TOOL)
api_reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(api_reference)


class Comments(unittest.TestCase):
    def test_documents_file_with_its_contract(self):
        form = api_reference.doxygen_form("// Purpose.\n// Thread: any.\n#pragma once\n")
        self.assertEqual(form, "/// @file\n/// Purpose.\n///\n/// **Thread:** any.\n#pragma once\n")

    def test_documents_members_and_leaves_bodies(self):
        source = "struct A {\n  // Effect.\n  void f() {\n    // reason\n    g();\n  }\n  int n;  // unit\n};\n"
        form = api_reference.doxygen_form("#pragma once\n" + source)
        self.assertIn("/// Effect.\n", form)
        self.assertIn("    // reason\n", form)
        self.assertIn("int n;  ///< unit\n", form)

    def test_documents_members_of_specialization(self):
        source = "template <class R, class... P>\nclass F<R(P...)> {\n  // Effect.\n  void f();\n};\n"
        self.assertIn("/// Effect.\n", api_reference.doxygen_form("#pragma once\n" + source))

    def test_turns_indented_lines_into_code(self):
        form = api_reference.doxygen_form("// Example:\n//\n//   f();\n")
        self.assertIn("/// @code\n///   f();\n/// @endcode", form)

    def test_ends_of_namespaces_stay(self):
        self.assertIn("}  // namespace a", api_reference.doxygen_form("namespace a {\n}  // namespace a\n"))


class Enumerators(unittest.TestCase):
    def test_finds_enumerator_without_comment(self):
        source = "enum class E : int {\n  first,  // one\n  // Two.\n  second,\n  third\n};\n"
        self.assertEqual(api_reference.bare_enumerators("e.h", source),
                         ["include/mobula/e.h:5: enumerator without a comment: third"])


if __name__ == "__main__":
    unittest.main()
