#!/usr/bin/env python3
"""Tests that the check of rules.md finds every kind of fault."""
import unittest

import check_rules

PAGE = """# Page

## 1. First

Names are text. Numbers are exact.

- A bullet is a rule: `get(ref)` returns.

| call | meaning |
| --- | --- |
| `put(value)` | Stores it. Returns a ref |
"""
TESTS = {"Suite.Works"}


def table(*rows):
    return "\n".join(["| rule | page | tests | known difference |", "| --- | --- | --- | --- |", *rows])


GOOD = ["| 1.names-1 | Names are text. | `Suite.Works` |  |", "| 1.names-2 | Numbers are exact. | `Suite.Works` | later |",
        "| 1.get-1 | A bullet is a rule: `get(ref)` returns. | `Suite.Works` |  |",
        "| 1.put-1 | `put(value)`: Stores it. | `Suite.Works` |  |", "| 1.put-2 | Returns a ref | `Suite.Works` |  |"]


class CheckRules(unittest.TestCase):
    def faults(self, *rows):
        return "\n".join(check_rules.faults(PAGE, table(*rows), TESTS))

    def test_accepts_a_whole_table(self):
        self.assertEqual(self.faults(*GOOD), "")

    def test_rejects_a_rule_without_a_row(self):
        self.assertIn("no row of tests/contract/rules.md for: Numbers are exact.", self.faults(GOOD[0], *GOOD[2:]))

    def test_rejects_a_rule_without_a_test(self):
        self.assertIn("1.names-1: no test", self.faults("| 1.names-1 | Names are text. |  |  |", *GOOD[1:]))

    def test_rejects_a_test_that_does_not_exist(self):
        self.assertIn("no test `Suite.Gone`", self.faults(GOOD[0].replace("Works", "Gone"), *GOOD[1:]))

    def test_rejects_a_row_that_the_page_lacks(self):
        self.assertIn("does not say: Names are numbers.", self.faults("| 1.names-3 | Names are numbers. | `Suite.Works` |  |", *GOOD))

    def test_rejects_two_rows_of_one_id(self):
        self.assertIn("this id has two rows", self.faults(GOOD[0], GOOD[1].replace("names-2", "names-1"), *GOOD[2:]))

    def test_rejects_unknown_tests_of_other_pages(self):
        page = "| report | `Suite.Works` | `Suite.Gone` | `file.cc` |\n`Suite.Gone` outside of a table\n"
        self.assertEqual(check_rules.faults_of_names("page", page, TESTS), ["page: no test `Suite.Gone` exists under tests/"])

    def test_rejects_another_order_and_section(self):
        self.assertIn("order", self.faults(GOOD[1], GOOD[0], *GOOD[2:]))
        self.assertIn("section", self.faults(GOOD[0].replace("| 1.", "| 2."), *GOOD[1:]))


if __name__ == "__main__":
    unittest.main()
