"""Field lists that omit a member do not compile, and the error states the rule.

usage: fields_no_compile_test.py COMPILER ROOT_DIRECTORY

A complete list comes first, so that a broken setup is not a success.
"""
import re
import subprocess
import sys

PREAMBLE = """
#include <optional>
#include <string>
#include <vector>
#include "base/fields.h"
struct Part { int first = 0; std::string second; MOBULA_FIELDS(first, second); };
"""
BODY = "\nvoid body(const Message& message) { mobula::internal::visit_fields(message, [](const auto&...) {}); }\n"

CASES = [
    ("struct Message { int a = 0; Part b; std::vector<Part> c; MOBULA_FIELDS(a, b, c); };", None),
    ("struct Message { int a = 0; Part b; MOBULA_FIELDS(a); };", "omits a member"),
    ("struct Message { std::optional<int> a; std::string b; MOBULA_FIELDS(b); };", "omits a member"),
    ("struct Message { Part a; MOBULA_FIELDS(); };", "omits a member"),
    ("struct Message { int a = 0; int b = 0; MOBULA_FIELDS(a, a); };", "names a member twice"),
    ("struct Message : Part { int a = 0; MOBULA_FIELDS(a); };", "omits a member"),
    ("struct Message { Message(int); int a; MOBULA_FIELDS(a); };", "is an aggregate"),
]


def main(compiler, root):
    failures = 0
    for code, expected in CASES:
        command = [compiler, "-std=c++20", "-fsyntax-only", "-I", root, "-x", "c++", "-"]
        done = subprocess.run(command, input=PREAMBLE + code + BODY, capture_output=True, text=True)
        stated = re.findall(r"error: static.assert[^\n]*", done.stderr)
        if expected is None:
            as_expected = done.returncode == 0
        else:
            as_expected = done.returncode != 0 and any(expected in each for each in stated)
        if not as_expected:
            failures += 1
            print(f"FAILED: {code}\n  expected: {expected}\n  errors: {stated}\n{done.stderr[:2000]}")
    print(f"{len(CASES) - failures} of {len(CASES)} cases as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
