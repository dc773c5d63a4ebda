// A driver in C++ that serves functions and an actor to programs in Python, and calls theirs:
//   cpp_peer JOB_NAME
// Each line of its input is a command with the name of the other job; "done" ends its output.
#include <mobula/function.h>
#include <mobula/mobula.h>
#include <mobula/neutral.h>
#include <mobula/service.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace {
using namespace mobula::dynamic;
}  // namespace

// ---- for programs in Python ----

struct Inner {
  std::int32_t count = 0;
  std::string name;
};
struct Outer {
  Inner inner;
  std::vector<Inner> more;
  std::map<std::string, std::optional<double>> weights;
};
// One level per link, as a neutral value too.
struct Chain {
  std::unique_ptr<Chain> next;
};
using IntRef = mobula::ObjectRef<std::int64_t>;

std::string origin() { return "C++"; }
void nothing() {}
bool same_bool(bool x) { return x; }
std::int64_t same_int(std::int64_t x) { return x; }
std::uint64_t same_unsigned(std::uint64_t x) { return x; }
double same_double(double x) { return x; }
std::string same_text(std::string x) { return x; }
std::vector<std::byte> same_bytes(std::vector<std::byte> x) { return x; }
std::vector<std::int64_t> same_list(std::vector<std::int64_t> x) { return x; }
std::map<std::string, double> same_map(std::map<std::string, double> x) { return x; }
std::optional<std::string> same_optional(std::optional<std::string> x) { return x; }
Outer same_struct(Outer x) { return x; }
Chain same_chain(Chain x) { return x; }
mobula::Tensor same_tensor(mobula::Tensor x) { return x; }
IntRef make_ref(std::int64_t x) { return mobula::put(x); }
std::int64_t read_ref(IntRef ref) { return mobula::get(ref); }
int fail(std::string why) { throw std::runtime_error(why); }
int die() { return ::raise(SIGKILL); }
mobula::generator<std::int64_t> count_to(std::int64_t end) {
  for (std::int64_t i = 0; i < end; ++i) co_yield i;
}
// Makes a file, and runs until the call is cancelled.
int hold(std::string path) {
  std::ofstream(path).put('x');
  while (!mobula::current().cancelled()) ::poll(nullptr, 0, 5);
  return 0;
}

NeutralValue value_of(const mobula::AnyRef& ref) {
  const auto fetched = get({&ref, 1}, {.timeout = std::chrono::seconds(60)});
  if (const auto* error = std::get_if<mobula::detail::ErrorRecord>(&fetched[0]))
    mobula::detail::throw_error(*error);
  return neutral_value(std::get<StoredPayload>(fetched[0]));
}

mobula::AnyRef submit_to(const std::string& program, const std::string& function,
                         const std::vector<NeutralValue>& values,
                         const mobula::TaskOptions& options = {}) {
  std::vector<std::unique_ptr<const Payload>> payloads;
  std::vector<Argument> arguments;
  for (const auto& each : values) {
    payloads.emplace_back(new Payload(neutral_payload(each)));
    arguments.push_back({.value = payloads.back().get()});
  }
  return submit({.name = function, .program = program}, options, arguments)[0];
}

// Calls a function of a third program, such as that of the caller.
std::int64_t forward(std::string program, std::string function, std::int64_t x) {
  const auto result = value_of(submit_to(program, function, {x}, {.num_cpus = 0}));
  return std::get<std::int64_t>(result.content());
}

class Counter {
 public:
  std::int64_t add(std::int64_t by) { return count_ += by; }
  Inner describe(std::string name) const { return {static_cast<std::int32_t>(count_), name}; }
  int fail(std::string why) { throw std::runtime_error(why); }

 private:
  std::int64_t count_ = 0;
};

const mobula::Functions<&origin, &nothing, &same_bool, &same_int, &same_unsigned, &same_double,
                        &same_text, &same_bytes, &same_list, &same_map, &same_optional,
                        &same_struct, &same_chain, &same_tensor, &make_ref, &read_ref, &fail, &die,
                        &count_to, &hold, &forward>
    functions;
const mobula::Service<Counter, &Counter::add, &Counter::describe, &Counter::fail> counter_service;

// ---- calls of programs in Python ----

namespace {

void show(const std::string& name, bool equal) {
  std::cout << name << ": " << (equal ? "equal" : "DIFFERENT") << std::endl;
}

template <class Call>
void show_error(const std::string& name, const Call& call) {
  try {
    (void)call();
    std::cout << name << ": no error" << std::endl;
  } catch (const std::exception& error) {
    std::cout << name << ": " << error.what() << std::endl;
  }
}

NeutralValue nested(int levels) {
  NeutralValue value;
  for (int i = 0; i < levels; ++i)
    value = i % 2 == 0 ? NeutralValue(List{value}) : NeutralValue(Dictionary{{"in", value}});
  return value;
}

mobula::Tensor tensor_of(const mobula::Extents& shape, mobula::DType dtype) {
  auto tensor = mobula::Tensor::zeros(shape, dtype);
  int number = 0;
  for (std::byte& each : tensor.mutable_view<std::byte>()) each = static_cast<std::byte>(++number);
  return tensor;
}

// Each type at its limits, and values in values.
std::vector<std::pair<std::string, NeutralValue>> all_values() {
  using Signed = std::numeric_limits<std::int64_t>;
  using Double = std::numeric_limits<double>;
  return {{"nil", {}},
          {"false", false},
          {"true", true},
          {"zero", 0},
          {"least int64", Signed::min()},
          {"most int64", Signed::max()},
          {"2^63", std::uint64_t{1} << 63},
          {"most uint64", std::numeric_limits<std::uint64_t>::max()},
          {"0.0", 0.0},
          {"least double", Double::lowest()},
          {"most double", Double::max()},
          {"smallest double", Double::denorm_min()},
          {"infinity", -Double::infinity()},
          {"whole double", 3.0},
          {"no text", ""},
          {"text", "caf\u00e9 \u4e2d\U0001f600"},
          {"text with a zero", std::string("a\0b", 3)},
          {"no bytes", Bytes{}},
          {"bytes", Bytes{std::byte{0}, std::byte{255}, std::byte{128}}},
          {"large bytes", Bytes(std::size_t{1} << 20, std::byte{7})},
          {"no list", List{}},
          {"list", List{1, -2, "three", 4.5, NeutralValue(), List{true}}},
          {"no dictionary", Dictionary{}},
          {"dictionary", Dictionary{{"", 1}, {"a", List{2}}, {"b", Dictionary{{"c", {}}}}}},
          {"256 levels", nested(256)},
          {"tensor", tensor_of({2, 3}, mobula::DType::float32)},
          {"no elements", tensor_of({2, 0}, mobula::DType::bfloat16)},
          {"tensor in a list", List{tensor_of({5}, mobula::DType::int64), 5}},
          {"ref", mobula::AnyRef(put(neutral_payload(9)))},
          {"handle", mobula::AnyActor(mobula::get_actor<Counter>("cpp_counter", "peers"))}};
}

void show_values(const std::string& program) {
  for (const auto& [name, value] : all_values())
    show(name, value_of(submit_to(program, "same", {value})) == value);
  const auto nan = value_of(submit_to(program, "same", {std::nan("")}));
  show("NaN", std::isnan(std::get<double>(nan.content())));
  show("no argument", value_of(submit_to(program, "origin", {})) == NeutralValue("python"));
  show("two arguments",
       value_of(submit_to(program, "peer_functions.pair", {1, "b"})) == NeutralValue(List{"b", 1}));
  // The value of a ref, which this process does not read.
  const mobula::AnyRef first = submit_to(program, "same", {41});
  const Argument by_ref{.ref = &first};
  show("by ref", value_of(submit({.name = "add_one", .program = program}, {}, {&by_ref, 1})[0]) ==
                     NeutralValue(42));
  const auto several = submit({.name = "three", .program = program}, {}, {}, {.count = 3});
  show("several results",
       value_of(several[0]) == NeutralValue(1) && value_of(several[2]) == NeutralValue(List{3}));
  // Python calls this program, which is not the caller's process.
  show("there and back",
       value_of(submit_to(program, "call_cpp", {"cpp_peer", 20})) == NeutralValue(20));
}

// Functions of Python with types of this program.
void show_typed(const std::string& program) {
  const auto add_one =
      mobula::function<std::int64_t(std::int64_t)>("peer_functions.add_one", program);
  const IntRef two = add_one.remote(1);
  show("integer", mobula::get(two) == 2 && mobula::get(add_one.remote(two)) == 3);
  const Outer outer{{3, "a"}, {{4, "b"}}, {{"x", 0.5}, {"y", std::nullopt}}};
  const auto same = mobula::get(mobula::function<Outer(Outer)>("same", program).remote(outer));
  show("struct", same.inner.name == "a" && same.more.at(0).count == 4 &&
                     same.weights.at("x") == 0.5 && !same.weights.at("y"));
  using Pair = std::tuple<std::string, int>;
  show("tuple",
       mobula::get(mobula::function<Pair(int, std::string)>("pair", program).remote(1, "b")) ==
           Pair("b", 1));
  std::vector<int> items;
  const auto count = mobula::function<mobula::generator<int>(int)>("count_up", program);
  for (const auto& each : count.remote(3)) items.push_back(mobula::get(each));
  show("items", items == std::vector{0, 1, 2});
  show_error("text for a number",
             [&] { return mobula::get(mobula::function<int()>("origin", program).remote()); });
  show_error("fail", [&] {
    return mobula::get(mobula::function<int(std::string)>("fail", program).remote("no luck"));
  });
}

void show_stream(const std::string& program) {
  const auto payload = neutral_payload(4);
  const Argument argument{.value = &payload};
  mobula::AnyRef position =
      submit({.name = "count_up", .program = program}, {}, {&argument, 1}, {.streaming = true})[0];
  std::cout << "stream:";
  for (;;) {
    const auto step = next(position, {.timeout = std::chrono::seconds(60)});
    const auto* item = std::get_if<StreamItem>(&step);
    if (item == nullptr || item->item.empty()) break;
    std::cout << " " << std::get<std::int64_t>(value_of(item->item).content());
    position = item->next;
  }
  std::cout << " end" << std::endl;
}

void show_errors(const std::string& program) {
  const auto run = [&](const std::string& function, std::vector<NeutralValue> arguments = {}) {
    return [=] { return value_of(submit_to(program, function, arguments, {.max_retries = 0})); };
  };
  show_error("fail", run("fail", {"no luck"}));
  show_error("member", run("broken_member"));
  show_error("huge", run("huge_int"));
  show_error("unknown", run("no_such_function"));
  show_error("module", run("no_such_module.function"));
  show_error("arguments", run("add_one"));
  show_error("die", run("die"));
  show("after", run("same", {5})() == NeutralValue(5));
}

void show_actor(const std::string& name) {
  const auto actor = get_actor(name, "peers", "PyCounter");
  const auto run = [&](const std::string& method, const std::vector<NeutralValue>& values) {
    std::vector<std::unique_ptr<const Payload>> payloads;
    std::vector<Argument> arguments;
    for (const auto& each : values) {
      payloads.emplace_back(new Payload(neutral_payload(each)));
      arguments.push_back({.value = payloads.back().get()});
    }
    return value_of(call(actor, {.name = method}, {}, arguments)[0]);
  };
  (void)run("add", {40});
  show("add", run("PyCounter.add", {2}) == NeutralValue(42));
  show("describe", run("describe", {}) == NeutralValue(Dictionary{{"count", 42}}));
  show_error("actor fails", [&] { return run("fail", {"no luck"}); });
  show_error("method", [&] { return run("no_such_method", {}); });
}

// A call runs and another one waits while the other program ends.
void show_waits(const std::string& program, const std::string& path) {
  const mobula::AnyRef running = submit_to(program, "hold", {path}, {.num_cpus = 2});
  const mobula::AnyRef waiting = submit_to(program, "same", {1}, {.num_cpus = 2});
  std::cout << "waiting" << std::endl;
  show_error("waits", [&] { return value_of(waiting); });
  cancel(running);
  show_error("runs", [&] { return value_of(running); });
  for (;;) {
    try {
      (void)value_of(submit_to(program, "same", {1}));
    } catch (const mobula::NotFoundError& error) {
      std::cout << "later: " << error.what() << std::endl;
      return;
    } catch (const mobula::UnschedulableError&) {
      // The name is known for a second after the end.
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const auto cluster = mobula::init(argc, argv, {.job_name = argv[1]});
  const auto counter =
      mobula::actor<Counter>
          .options({.name = std::string(argv[1]) == "cpp_peer" ? "cpp_counter" : "",
                    .name_space = "peers",
                    .num_cpus = 0})
          .remote();
  mobula::get(counter.call<&Counter::add>(std::int64_t{0}));
  std::cout << "serving" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, other, path;
    words >> command >> other >> path;
    if (command == "values") show_values(other);
    if (command == "stream") show_stream(other);
    if (command == "typed") show_typed(other);
    if (command == "errors") show_errors(other);
    if (command == "actor") show_actor(other);
    if (command == "waits") show_waits(other, path);
    std::cout << "done" << std::endl;
  }
} catch (const std::exception& error) {
  std::cerr << "cpp_peer: " << error.what() << std::endl;
  return 1;
}
