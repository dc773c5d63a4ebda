#include <chrono>
#include <cstring>
#include <memory>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Resident memory: every page is written.
class Ballast {
 public:
  void take(int mib) {
    for (int i = 0; i < mib; ++i) {
      parts_.push_back(std::make_unique<char[]>(part));
      std::memset(parts_.back().get(), 1, part);
    }
  }

 private:
  static constexpr std::size_t part = 1 << 20;
  std::vector<std::unique_ptr<char[]>> parts_;
};

// Takes half of the memory at once and the rest in small steps, slowly enough to be sampled. Then
// keeps it for a while.
int eats(int mib) {
  Ballast ballast;
  ballast.take(mib / 2);
  for (int taken = mib / 2; taken < mib; taken += 2) {
    ballast.take(2);
    std::this_thread::sleep_for(milliseconds(100));
  }
  std::this_thread::sleep_for(seconds(5));
  return mib;
}

// Takes the memory at once and keeps it until the pipe is written.
int eats_and_holds(int mib, const std::string& pipe) {
  Ballast ballast;
  ballast.take(mib);
  hold(pipe);
  return mib;
}

int eats_at_once(int mib) {
  Ballast ballast;
  ballast.take(mib);
  return mib;
}

int works(int for_ms) {
  std::this_thread::sleep_for(milliseconds(for_ms));
  return static_cast<int>(mobula::current().attempt);
}

void contains(Report& report, const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) report.fail("'" + part + "' is not in: " + text);
}

// Arguments: MiB that exceed the limit, and two parts of the error text. With a fourth argument,
// takes the whole amount at once.
int eats_too_much(const Words& arguments) {
  Report report;
  const auto beside = mobula::task<works>.options({.max_retries = 0}).remote(4000);
  const mobula::TaskOptions options{.name = "hungry", .max_retries = 1};
  const int mib = std::stoi(arguments.at(0));
  const auto hungry = arguments.size() > 3 ? mobula::task<eats_at_once>.options(options).remote(mib)
                                           : mobula::task<eats>.options(options).remote(mib);
  try {
    mobula::get(hungry, seconds(60));
    report.fail("it gave a value");
  } catch (const mobula::OutOfMemoryError& error) {
    const std::string what = error.what();
    std::cout << what << std::endl;
    contains(report, what, "hungry");
    contains(report, what, arguments.at(1));
    contains(report, what, "in use");
    contains(report, what, arguments.at(2));
    contains(report, what, "attempt 2 was the last (max_retries)");
  }
  report.equal("the concurrent task, in its first attempt", mobula::get(beside, seconds(60)), 0);
  report.equal("the next task", mobula::get(mobula::task<works>.remote(0), seconds(60)), 0);
  return report.exit_code();
}

// Arguments: MiB, a pipe.
int holds_memory(const Words& arguments) {
  const auto held = mobula::task<eats_and_holds>
                        .options({.max_retries = 0})
                        .remote(std::stoi(arguments.at(0)), arguments.at(1));
  tell("ready");
  Report report;
  report.equal("value", mobula::get(held, seconds(60)), std::stoi(arguments.at(0)));
  hear();
  return report.exit_code();
}

// Puts values of 8 MiB until the store rejects one. Prints how many it accepted.
int fills_the_store(const Words&) {
  Report report;
  std::vector<mobula::ObjectRef<std::vector<double>>> kept;
  try {
    for (int i = 0; i < 1000; ++i) kept.push_back(mobula::put(std::vector<double>(1 << 20, i)));
    report.fail("the store took 8 GB");
  } catch (const mobula::ObjectStoreFullError& error) {
    std::cout << error.what() << std::endl;
  }
  tell("values: " + std::to_string(kept.size()));
  report.holds("some", kept.size() > 2);
  report.equal("the first", mobula::get(kept.front(), seconds(30))[7], 0.0);
  report.equal("a task", mobula::get(mobula::task<works>.remote(0), seconds(60)), 0);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> memory_scenarios() {
  return {{"eats_too_much", &eats_too_much},
          {"holds_memory", &holds_memory},
          {"fills_the_store", &fills_the_store}};
}

}  // namespace mobula::e2e
