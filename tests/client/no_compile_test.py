"""Wrong programs do not compile, and the first lines of the compiler give the reason and the remedy.

usage: no_compile_test.py COMPILER INCLUDE_DIRECTORY

Each case is a program that must fail with exactly one error that has the text. A case may list names that the
first lines must show, from the error on. Right programs come first, so that a broken setup is not a success.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

FIRST_LINES = 7
PREAMBLE = """
#include <mobula/mobula.h>
#include <mobula/service.h>
#include <map>
#include <mutex>
int square(int x) { return x * x; }
int* pointing(int x);
int takes_pointer(int* p);
struct Array { int values[4]; int more; };
struct Derived : std::tuple<int> { int more; };
int takes_array(Array a);
struct Guarded { int count; std::mutex lock; };
struct Config { std::string name; std::vector<Guarded> parts; };
struct Linked { std::string name; std::map<std::string, std::vector<Linked*>> children; };
class Hidden { int value = 0; public: explicit Hidden(int); };
struct Job { Config config; };
struct Holder { std::string label; Hidden hidden; };
int takes_config(Config c);
int takes_job(const Job& j);
Linked returns_linked(int x);
std::tuple<int, Linked> returns_two(int x);
int changes(std::vector<int>& values);
int changes_view(mobula::View<std::vector<int>>& values);
int overloaded(int x);
int overloaded(double x);
class Counter {
 public:
  explicit Counter(int start);
  int add(int by);
  int twice(int x);
  double twice(double x);
  void change(int& x);
};
class Other {
 public:
  int add(int by);
};
class Declared {
 public:
  explicit Declared(int start);
  int add(int by);
};
MOBULA_DECLARED_ONLY(Declared)
"""
BODY = """
void body(mobula::ActorHandle<Counter> counter) {
  (void)counter;
  %s
}
"""

SERIALIZED = "this type cannot be serialized"
PARAMETER = "a parameter's type cannot be serialized"
RESULT = "the result's type cannot be serialized"
REFERENCE = "a parameter T& would refer to a copy in another process"
COUNT = "the number of arguments is not the number of parameters"
OVERLOAD = None  # an error of the language; g++ adds a second one for the same call
ARGUMENT = "an argument is neither convertible to its parameter's type nor an ObjectRef"

CASES = [
    ("(void)mobula::task<square>.remote(1);", None),
    ("(void)mobula::wait({mobula::put(1), mobula::put(2)}, {.num_returns = 2});", None),
    ("(void)mobula::get(mobula::put(1)); (void)mobula::get(std::vector{mobula::put(1)}, std::chrono::seconds(1));", None),
    ("(void)counter.call_as<int(int), &Counter::twice>(1);", None),
    ("(void)mobula::task<static_cast<int (*)(int)>(overloaded)>.remote(1);", None),
    ("mobula::get_actor<Declared>(\"name\").call<&Declared::add>(1);", None),
    ("(void)mobula::actor<Declared>.remote(1);",
     "mobula: actor<C> needs the definitions of C's methods, which MOBULA_DECLARED_ONLY denies"),
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
    ("(void)mobula::put(static_cast<int*>(nullptr));", SERIALIZED),
    ("(void)mobula::put(Array{});", SERIALIZED),
    ("(void)mobula::put(Derived{});", SERIALIZED),
    ("(void)mobula::put(std::vector<int*>{});", SERIALIZED),
    ("(void)mobula::get_view(mobula::ObjectRef<std::vector<std::string>>());", "View<C> needs"),
    ("(void)mobula::actor<Counter>.remote(std::string());", "no constructor for these arguments"),
    ("(void)mobula::actor<Counter>.remote();", "no constructor for these arguments"),
    ("(void)counter.call<&Other::add>(1);", "the method belongs to another class"),
    ("(void)counter.call<&Counter::add>();", COUNT),
    ("(void)counter.call<&Counter::add>(std::string());", ARGUMENT),
    ("(void)counter.call<&square>(1);", "needs a method of the actor's class"),
    ("mobula::register_exception<Other>();", "derived from std::exception"),
    ("(void)mobula::task<takes_config>.remote(Config{});", PARAMETER, "std::mutex", "Guarded", "lock"),
    ("(void)mobula::task<takes_job>.remote(Job{});", PARAMETER, "std::mutex", "Guarded", "lock"),
    ("(void)mobula::task<returns_linked>.remote(1);", RESULT, "Linked", "children"),
    ("(void)mobula::task<returns_two>.split().remote(1);", RESULT, "Linked", "children"),
    ("(void)mobula::put(Holder{\"\", Hidden(1)});", SERIALIZED, "Hidden", "Holder", "hidden"),
    ("(void)mobula::put(std::vector<Hidden>{});", SERIALIZED, "Hidden", "NoMember"),
    ("(void)mobula::task<changes>.remote(std::vector<int>{});", REFERENCE),
    ("(void)mobula::task<changes_view>.remote(std::vector<int>{});", REFERENCE),
    ("(void)counter.call<&Counter::change>(1);", REFERENCE),
    ("int x = 5; (void)mobula::actor<Counter>.remote_as<int&>(x);", REFERENCE),
    ("(void)mobula::get(5);", "get takes an ObjectRef"),
    ("int x = mobula::get(5, std::chrono::seconds(1)); (void)x;", "get takes an ObjectRef"),
    ("(void)mobula::get(std::vector<int>{});", "get takes an ObjectRef"),
    ("(void)mobula::try_get(5);", "try_get takes an ObjectRef"),
    ("(void)mobula::get_view(5);", "get_view takes an ObjectRef"),
    ("(void)mobula::wait(mobula::put(5));", "wait takes a std::vector of ObjectRefs"),
    ("(void)counter.call<&Counter::twice>(1);", OVERLOAD, "use_call_as"),
    ("(void)counter.method<&Counter::twice>().remote(1);", OVERLOAD, "use_method_as"),
]


def precompiled(compiler, include, directory):
    """Precompiles the common preamble: g++ and clang++ both find it next to the header that they include."""
    header = directory / "preamble.h"
    header.write_text(PREAMBLE)
    command = [compiler, "-std=c++20", "-I", include, "-x", "c++-header", str(header), "-o", f"{header}.gch"]
    subprocess.run(command, check=True)
    return header


def head_of(stderr):
    """The first lines from the error on."""
    lines = stderr.splitlines()
    first = next((i for i, line in enumerate(lines) if "error: " in line), len(lines))
    return "\n".join(lines[first:first + FIRST_LINES])


def is_as_expected(done, expected, names):
    errors = re.findall(r"error: [^\n]*", done.stderr)
    if expected is None and not names:
        return done.returncode == 0
    stated = set(re.findall(r"error: static.assert[^\n]*?(mobula: [^\n\"]*)", done.stderr))
    head = head_of(done.stderr)
    has_reason = expected is None or any(expected in each for each in stated)
    return done.returncode != 0 and (len(errors) == 1 or expected is OVERLOAD) and has_reason and all(name in head for name in names)


def check_cases(compiler, include, preamble):
    failures = 0
    for code, expected, *names in CASES:
        command = [compiler, "-std=c++20", "-fsyntax-only", "-I", include, "-include", str(preamble), "-x", "c++", "-"]
        done = subprocess.run(command, input=BODY % code, capture_output=True, text=True)
        if not is_as_expected(done, expected, names):
            failures += 1
            print(f"FAILED: {code}\n  expected: {expected} {names}\n  first lines:\n{head_of(done.stderr)}\n  errors:")
            print("\n".join("    " + error for error in re.findall(r"error: [^\n]*", done.stderr)) or "    none")
    print(f"{len(CASES) - failures} of {len(CASES)} cases as expected")
    return 1 if failures else 0


def main(compiler, include):
    with tempfile.TemporaryDirectory() as directory:
        return check_cases(compiler, include, precompiled(compiler, include, pathlib.Path(directory)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
