// Tasks of one driver while somebody looks at the cluster: what poll_cost.py runs. Reads orders from its input, a
// line each, and answers each with a line: "run SECONDS" with the tasks a second that it has done meanwhile, a
// thousand at once; "hold COUNT" when so many tasks that do not end are submitted.
#include <mobula/mobula.h>

#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int at_once = 1000;

int next(int x) { return x + 1; }
int waits(int x) {
  std::this_thread::sleep_for(std::chrono::hours(1));
  return x;
}

void run_batch() {
  std::vector<mobula::ObjectRef<int>> refs;
  refs.reserve(at_once);
  for (int i = 0; i < at_once; ++i) refs.push_back(mobula::task<next>.remote(i));
  long sum = 0;
  for (const int value : mobula::get(refs)) sum += value;
  if (sum != static_cast<long>(at_once) * (at_once + 1) / 2) throw std::runtime_error("a wrong sum");
}

double run_for(double seconds) {
  const auto begun = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); };
  int batches = 0;
  for (; passed() < seconds; ++batches) run_batch();
  return batches * at_once / passed();
}

}  // namespace

int main() {
  const auto cluster = mobula::init();
  std::vector<mobula::ObjectRef<int>> held;
  std::string order;
  double amount = 0;
  while (std::cin >> order >> amount) {
    if (order == "run") {
      std::cout << run_for(amount) << std::endl;
    } else if (order == "hold") {
      while (held.size() < static_cast<std::size_t>(amount)) held.push_back(mobula::task<waits>.remote(0));
      std::cout << held.size() << std::endl;
    } else {
      std::cerr << "no such order: " << order << "\n";
      return 2;
    }
  }
  return 0;
}
