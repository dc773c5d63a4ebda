// Tasks of one driver while a client polls the cluster. poll_cost.py runs it. Reads one order per
// line and replies with one line each. "run SECONDS" runs a thousand tasks at a time and returns
// their number and the seconds they took. "pace BATCHES" does the same, with a thousand tasks at
// the start of every 50 ms. "hold COUNT" replies when that many endless tasks are submitted.
#include <mobula/mobula.h>

#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int at_once = 1000;
constexpr auto pace = std::chrono::milliseconds(50);

int next(int x) { return x + 1; }
int waits(int x) {
  std::this_thread::sleep_for(std::chrono::hours(1));
  return x;
}

double since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

void run_batch() {
  std::vector<mobula::ObjectRef<int>> refs;
  refs.reserve(at_once);
  for (int i = 0; i < at_once; ++i) refs.push_back(mobula::task<next>.remote(i));
  long sum = 0;
  for (const int value : mobula::get(refs)) sum += value;
  if (sum != static_cast<long>(at_once) * (at_once + 1) / 2)
    throw std::runtime_error("a wrong sum");
}

void run_for(double seconds) {
  const auto begun = Clock::now();
  int batches = 0;
  for (; since(begun) < seconds; ++batches) run_batch();
  std::cout << batches * at_once << " " << since(begun) << std::endl;
}

void run_paced(int batches) {
  const auto begun = Clock::now();
  for (int i = 0; i < batches; ++i) {
    std::this_thread::sleep_until(begun + i * pace);
    run_batch();
  }
  std::this_thread::sleep_until(begun + batches * pace);
  std::cout << batches * at_once << " " << since(begun) << std::endl;
}

}  // namespace

int main() {
  const auto cluster = mobula::init();
  std::vector<mobula::ObjectRef<int>> held;
  std::string order;
  double amount = 0;
  while (std::cin >> order >> amount) {
    if (order == "run") {
      run_for(amount);
    } else if (order == "pace") {
      run_paced(static_cast<int>(amount));
    } else if (order == "hold") {
      const auto begun = Clock::now();
      while (held.size() < static_cast<std::size_t>(amount))
        held.push_back(mobula::task<waits>.remote(0));
      std::cout << held.size() << " " << since(begun) << std::endl;
    } else {
      std::cerr << "no such order: " << order << "\n";
      return 2;
    }
  }
  return 0;
}
