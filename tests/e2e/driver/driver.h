// The driver program of the tests: its first argument names a scenario. A scenario returns the exit
// code, 0 on success, and prints differences to stderr.
// Thread: the main thread.
#pragma once

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <mobula/mobula.h>
#include <unistd.h>

#include <csignal>

namespace mobula::e2e {

using Words = std::vector<std::string>;
using Scenario = int (*)(const Words& arguments);

std::map<std::string, Scenario> task_scenarios();
std::map<std::string, Scenario> actor_scenarios();
std::map<std::string, Scenario> failure_scenarios();
std::map<std::string, Scenario> error_scenarios();
std::map<std::string, Scenario> store_limit_scenarios();
std::map<std::string, Scenario> request_scenarios();
std::map<std::string, Scenario> node_scenarios();
std::map<std::string, Scenario> group_scenarios();
std::map<std::string, Scenario> question_scenarios();
std::map<std::string, Scenario> device_scenarios();
std::map<std::string, Scenario> plan_scenarios();
std::map<std::string, Scenario> capture_scenarios();
std::map<std::string, Scenario> preemption_scenarios();
std::map<std::string, Scenario> memory_scenarios();
std::map<std::string, Scenario> spilling_scenarios();
std::map<std::string, Scenario> limit_scenarios();
std::map<std::string, Scenario> bulk_scenarios();
std::map<std::string, Scenario> tensor_scenarios();
std::map<std::string, Scenario> direct_scenarios();
std::map<std::string, Scenario> transfer_scenarios();
std::map<std::string, Scenario> chaos_scenarios();
std::map<std::string, Scenario> device_tensor_scenarios();
std::map<std::string, Scenario> allocation_scenarios();
std::map<std::string, Scenario> collective_scenarios();
std::map<std::string, Scenario> device_collective_scenarios();
std::map<std::string, Scenario> residence_scenarios();
std::map<std::string, Scenario> tensor_way_scenarios();
std::map<std::string, Scenario> tensor_policy_scenarios();
std::map<std::string, Scenario> end_scenarios();
std::map<std::string, Scenario> deferred_scenarios();
std::map<std::string, Scenario> stream_scenarios();

// Counts failed expectations.
class Report {
 public:
  template <class A, class B>
  void equal(const char* what, const A& seen, const B& expected) {
    if (seen == expected) return;
    std::ostringstream text;
    text << what << ": " << seen << ", expected " << expected;
    fail(text.str());
  }
  void holds(const char* what, bool true_) {
    if (!true_) fail(what);
  }
  void fail(const std::string& what) {
    std::cerr << "NOT AS EXPECTED: " << what << std::endl;
    ++failures_;
  }
  int exit_code() const { return failures_ == 0 ? 0 : 1; }

 private:
  int failures_ = 0;
};

// Expects that `f` throws an E.
template <class E, class F>
void throws(Report& report, const char* what, const F& f) {
  try {
    f();
    report.fail(std::string("no error: ") + what);
  } catch (const E&) {
  } catch (const std::exception& error) {
    report.fail(std::string(what) + " threw something else: " + error.what());
  }
}

// The tasks and the actor of all scenarios.
inline int one() { return 1; }
inline int until_cancelled() {
  while (!mobula::current().cancelled()) std::this_thread::yield();
  return 0;
}
// Reads a named pipe: returns when a writer has written a line.
inline std::string hold(const std::string& pipe) {
  std::ifstream file(pipe);
  std::string line;
  std::getline(file, line);
  return line;
}

class Counter {
 public:
  int add(int by) { return value_ += by; }
  std::int64_t pid() const { return ::getpid(); }
  std::string node() const { return mobula::current().node_id; }
  bool restarted() const { return mobula::current().was_restarted; }
  void die() { ::kill(::getpid(), SIGKILL); }

 private:
  int value_ = 0;
};

// Prints a line without buffering, for the test that waits for it.
inline void tell(const std::string& line) { std::cout << line << std::endl; }
// Waits for a line from the test.
inline std::string hear() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

}  // namespace mobula::e2e
