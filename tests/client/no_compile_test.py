"""Wrong programs do not compile, and the compiler says why in Mobula's own words.

usage: no_compile_test.py COMPILER INCLUDE_FOLDER

Each case is a program that must fail with the text, and with no more of Mobula's messages than that
one. A right program comes first, so that a broken setup is not taken for success.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

PREAMBLE = """
#include <mobula/mobula.h>
int square(int x) { return x * x; }
int* pointing(int x);
int takes_pointer(int* p);
struct Array { int values[4]; int more; };
struct Derived : std::tuple<int> { int more; };
int takes_array(Array a);
class Counter {
 public:
  explicit Counter(int start);
  int add(int by);
};
class Other {
 public:
  int add(int by);
};
"""
BODY = """
void body(mobula::ActorHandle<Counter> counter) {
  (void)counter;
  %s
}
"""

SERIALISED = "this type cannot be serialised"
PARAMETER = "a parameter's type cannot be serialised"
RESULT = "the result's type cannot be serialised"
COUNT = "the number of arguments is not the number of parameters"
ARGUMENT = "an argument is neither convertible to its parameter's type nor an ObjectRef"

CASES = [
    ("(void)mobula::task<square>.remote(1);", None),
    ("(void)mobula::wait({mobula::put(1), mobula::put(2)}, {.num_returns = 2});", None),
    ("(void)mobula::task<square>.remote();", COUNT),
    ("(void)mobula::task<square>.remote(1, 2);", COUNT),
    ('(void)mobula::task<square>.remote("text");', ARGUMENT),
    ('(void)mobula::task<square>.remote(mobula::put("text"));', ARGUMENT),
    ("(void)mobula::task<square>.remote(mobula::ObjectRef<double>());", ARGUMENT),
    ("(void)mobula::task<pointing>.remote(1);", RESULT),
    ("(void)mobula::task<takes_pointer>.remote(nullptr);", PARAMETER),
    ("(void)mobula::task<takes_array>.remote(Array{});", PARAMETER),
    ("(void)mobula::task<square>.split();", "split() needs a function that returns"),
    ("(void)mobula::task<&Counter::add>.remote(1);", "task<f> runs functions; methods are called"),
    ("(void)mobula::task<[](auto x) { return x; }>.remote(1);", "task<f> needs a function or a"),
    ("(void)mobula::put(static_cast<int*>(nullptr));", SERIALISED),
    ("(void)mobula::put(Array{});", SERIALISED),
    ("(void)mobula::put(Derived{});", SERIALISED),
    ("(void)mobula::put(std::vector<int*>{});", SERIALISED),
    ("(void)mobula::get_view(mobula::ObjectRef<std::vector<std::string>>());", "View<C> needs"),
    ("(void)mobula::actor<Counter>.remote(std::string());", "no constructor for these arguments"),
    ("(void)mobula::actor<Counter>.remote();", "no constructor for these arguments"),
    ("(void)counter.call<&Other::add>(1);", "the method belongs to another class"),
    ("(void)counter.call<&Counter::add>();", COUNT),
    ("(void)counter.call<&Counter::add>(std::string());", ARGUMENT),
    ("(void)counter.call<&square>(1);", "needs a method of the actor's class"),
    ("mobula::register_exception<Other>();", "derived from std::exception"),
]


def precompiled(compiler, include, folder):
    """What all cases begin with, read once: g++ and clang++ both find it beside the header they include."""
    header = folder / "preamble.h"
    header.write_text(PREAMBLE)
    command = [compiler, "-std=c++20", "-I", include, "-x", "c++-header", str(header), "-o", f"{header}.gch"]
    subprocess.run(command, check=True)
    return header


def check_cases(compiler, include, preamble):
    failures = 0
    for code, expected in CASES:
        command = [compiler, "-std=c++20", "-fsyntax-only", "-I", include, "-include", str(preamble), "-x", "c++", "-"]
        done = subprocess.run(command, input=BODY % code, capture_output=True, text=True)
        said = set(re.findall(r"error: static.assert[^\n]*?(mobula: [^\n\"]*)", done.stderr))
        errors = re.findall(r"error: [^\n]*", done.stderr)
        if expected is None:
            good = done.returncode == 0
        else:
            good = done.returncode != 0 and len(errors) == 1 and any(expected in s for s in said)
        if not good:
            failures += 1
            print(f"FAILED: {code}\n  expected: {expected}\n  errors:")
            print("\n".join("    " + error for error in errors) or "    none")
    print(f"{len(CASES) - failures} of {len(CASES)} cases as expected")
    return 1 if failures else 0


def main(compiler, include):
    with tempfile.TemporaryDirectory() as folder:
        return check_cases(compiler, include, precompiled(compiler, include, pathlib.Path(folder)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
