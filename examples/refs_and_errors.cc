//   refs are stored inside values; get rethrows an exception of a task with its type
#include <mobula/mobula.h>
#include <chrono>
#include <iostream>
#include <stdexcept>

class ParseError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// At namespace scope, so that executors register the type too.
static const bool registered = mobula::register_exception<ParseError>();

struct Order {
  std::string name;
  std::vector<mobula::ObjectRef<int>> parts;
};

int twice(int x) { return 2 * x; }

int total(const Order& order) {
  int sum = 0;
  for (const auto& part : order.parts) sum += part.get();
  return sum;
}

std::tuple<int, std::string> divide(int a, int b) {
  return {a / b, "remainder " + std::to_string(a % b)};
}

int parse(const std::string& text) {
  if (text != "7") throw ParseError("'" + text + "' is not a number");
  return 7;
}

int until_cancelled() {
  while (!mobula::current().cancelled()) {
  }
  return 0;
}

bool nested_refs() {
  Order order{"three", {}};
  for (const int each : {1, 2, 3}) order.parts.push_back(mobula::task<twice>.remote(each));
  const int sum = mobula::get(mobula::task<total>.remote(order));
  std::cout << "refs in a struct: " << sum << "\n";
  return sum == 12;
}

bool puts_and_waits() {
  std::vector<mobula::ObjectRef<int>> refs;
  for (int i = 0; i < 4; ++i) refs.push_back(mobula::task<twice>.remote(mobula::put(i)));
  const auto [ready, pending] = mobula::wait(refs, {.num_returns = 2});
  std::cout << "wait for 2 of 4: " << ready.size() << " ready, " << pending.size() << " pending\n";
  return ready.size() == 2 && pending.size() == 2;
}

bool splits() {
  auto [quotient, rest] = mobula::task<divide>.split().remote(17, 5);
  std::cout << "split: " << mobula::get(quotient) << ", " << mobula::get(rest) << "\n";
  return mobula::get(quotient) == 3;
}

bool errors() {
  const auto bad = mobula::task<parse>.remote("seven");
  // Never runs, because its argument is an error.
  const auto after = mobula::task<twice>.remote(bad);
  try {
    mobula::get(after);
  } catch (const ParseError& error) {
    std::cout << "ParseError: " << error.what() << "\n";
    return true;
  }
  return false;
}

bool timeouts_and_cancel() {
  const auto endless = mobula::task<until_cancelled>.remote();
  bool timed_out = false;
  bool cancelled = false;
  try {
    mobula::get(endless, std::chrono::milliseconds(20));
  } catch (const mobula::GetTimeoutError&) {
    timed_out = true;
  }
  mobula::cancel(endless);
  const auto result = mobula::try_get(endless, std::chrono::seconds(20));
  if (!result)
    cancelled = dynamic_cast<const mobula::TaskCancelledError*>(&result.error()) != nullptr;
  std::cout << "timed out: " << timed_out << ", then cancelled: " << cancelled << "\n";
  return timed_out && cancelled;
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  bool right = registered;
  for (const auto part : {nested_refs, puts_and_waits, splits, errors, timeouts_and_cancel}) {
    right = part() && right;
  }
  return right ? 0 : 1;
}
