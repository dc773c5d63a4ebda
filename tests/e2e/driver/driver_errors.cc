// Texts and causes of errors, and the calls that cancellation ends.
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;
using Refs = std::vector<mobula::ObjectRef<int>>;

// ---- cancellation ------------------------------------------------------------------------------

int gets(const Refs& refs) { return mobula::get(refs.front()); }
int gets_all(const Refs& refs) { return mobula::get(refs).front(); }
int waits(const Refs& refs) { return static_cast<int>(mobula::wait(refs).ready.size()); }
int views(const std::vector<mobula::ObjectRef<std::vector<int>>>& refs) {
  return mobula::get_view(refs.front())[0];
}
std::vector<int> vector_until_cancelled() {
  until_cancelled();
  return {1};
}

class Reader {
 public:
  int get(const Refs& refs) { return mobula::get(refs.front()); }
  int ready() { return 1; }
};

// Waits until the driver knows that the task runs.
template <class Ref>
void until_running(const Ref& ref) {
  (void)mobula::wait(std::vector{ref}, {.timeout = mobula::Duration(0.3), .fetch_local = false});
}

int cancels_blocked(const Words&) {
  Report report;
  const auto endless = mobula::task<until_cancelled>.remote();
  const auto endless_vector = mobula::task<vector_until_cancelled>.remote();
  const Refs refs{endless};
  auto reader = mobula::actor<Reader>.remote();
  report.equal("the actor", mobula::get(reader.call<&Reader::ready>(), seconds(30)), 1);
  const auto ends = [&](const char* what, const auto& blocked) {
    until_running(blocked);
    mobula::cancel(blocked, {.recursive = false});
    throws<mobula::TaskCancelledError>(report, what,
                                       [&] { (void)mobula::get(blocked, seconds(20)); });
  };
  ends("blocked in get", mobula::task<gets>.remote(refs));
  ends("blocked in get of a vector", mobula::task<gets_all>.remote(Refs{endless, endless}));
  ends("blocked in wait", mobula::task<waits>.remote(refs));
  ends("blocked in get_view", mobula::task<views>.remote(std::vector{endless_vector}));
  const auto call = reader.call<&Reader::get>(refs);
  ends("a call of an actor", call);
  report.equal("the actor still runs", mobula::get(reader.call<&Reader::ready>(), seconds(30)), 1);
  mobula::cancel(endless);
  mobula::cancel(endless_vector);
  return report.exit_code();
}

// Threads block in each public call until the test has read the warnings.
int blocks_in_calls(const Words&) {
  const auto endless = mobula::task<until_cancelled>.remote();
  const auto endless_vector = mobula::task<vector_until_cancelled>.remote();
  std::vector<std::thread> threads;
  const auto block = [&threads](const auto& call) {
    threads.emplace_back([call] {
      try {
        call();
      } catch (const mobula::TaskCancelledError&) {
      }
    });
  };
  block([endless] { (void)mobula::wait(std::vector{endless, endless}, {.num_returns = 2}); });
  block([endless] { (void)mobula::get(endless); });
  block([endless_vector] { (void)mobula::get_view(endless_vector); });
  block([endless] {
    mobula::CompletionQueue queue;
    queue.add(endless, 1);
    std::array<std::uint64_t, 1> tokens{};
    (void)queue.take(tokens, seconds(300));
  });
  hear();
  mobula::cancel(endless);
  mobula::cancel(endless_vector);
  for (auto& each : threads) each.join();
  return 0;
}

// Tasks print more than a pipe holds.
std::string prints_much(int number) {
  for (int i = 0; i < 1'000; ++i) std::cerr << "line " << i << std::string(200, 'x') << "\n";
  return std::string(100, static_cast<char>('a' + number));
}
int reads_after_output(const Words&) {
  Report report;
  for (int i = 0; i < 4; ++i) {
    report.equal("value", mobula::get(mobula::task<prints_much>.remote(i), seconds(30)),
                 std::string(100, static_cast<char>('a' + i)));
  }
  return report.exit_code();
}

int force_cancels_actor_call(const Words&) {
  Report report;
  const auto endless = mobula::task<until_cancelled>.remote();
  auto reader = mobula::actor<Reader>.remote();
  const auto call = reader.call<&Reader::get>(Refs{endless});
  try {
    mobula::cancel(call, {.force = true});
    report.fail("force was accepted");
  } catch (const mobula::InvalidRequestError& error) {
    report.equal("field", error.field(), "force");
  }
  mobula::cancel(call);
  throws<mobula::TaskCancelledError>(report, "without force",
                                     [&] { (void)mobula::get(call, seconds(20)); });
  mobula::cancel(endless);
  return report.exit_code();
}

// ---- the process -------------------------------------------------------------------------------

bool is_in_executor() { return mobula::in_executor(); }
std::string calls_init() {
  try {
    const auto cluster = mobula::init();
    return "a second runtime";
  } catch (const mobula::InvalidRequestError& error) {
    return error.what();
  }
}

class ExecutorProbe {
 public:
  ExecutorProbe() : constructed_(mobula::in_executor()) {}
  bool is_in_executor() const { return constructed_ && mobula::in_executor(); }

 private:
  bool constructed_;
};

int knows_executor(const Words&) {
  Report report;
  report.holds("the driver is no executor", !mobula::in_executor());
  report.holds("a task is in one", mobula::get(mobula::task<is_in_executor>.remote(), seconds(30)));
  report.holds(
      "one with max_calls",
      mobula::get(mobula::task<is_in_executor>.options({.max_calls = 1}).remote(), seconds(30)));
  auto probe = mobula::actor<ExecutorProbe>.remote();
  report.holds("an actor is",
               mobula::get(probe.call<&ExecutorProbe::is_in_executor>(), seconds(30)));
  const auto refused = mobula::get(mobula::task<calls_init>.remote(), seconds(30));
  report.holds("init in a task is refused", refused.find("is an executor") != std::string::npos);
  return report.exit_code();
}

// ---- causes ------------------------------------------------------------------------------------

int out_of_range() { return std::vector<int>{}.at(3); }

int names_task(const Words&) {
  Report report;
  const auto ref = mobula::task<out_of_range>.remote();
  try {
    (void)mobula::get(ref, seconds(30));
    report.fail("nothing was thrown");
  } catch (const std::out_of_range& error) {
    const std::string text = error.what();
    for (const char* part : {"task ", "out_of_range", " on node ", " in process ", "range_check"}) {
      report.holds((std::string(part) + " is in: " + text).c_str(),
                   text.find(part) != std::string::npos);
    }
  }
  return report.exit_code();
}

class Breaks {
 public:
  explicit Breaks(int at) { (void)std::vector<int>{}.at(static_cast<std::size_t>(at)); }
  int value() { return 1; }
};

int calls_broken(mobula::ActorHandle<Breaks> broken) {
  return mobula::get(broken.call<&Breaks::value>(), seconds(30));
}

int constructor_throws(const Words&) {
  Report report;
  auto broken = mobula::actor<Breaks>.remote(3);
  for (int i = 0; i < 3; ++i) {
    try {
      (void)mobula::get(broken.call<&Breaks::value>(), seconds(30));
      report.fail("nothing was thrown");
    } catch (const mobula::ActorDiedError& error) {
      report.holds("names the actor", error.actor_id().size() == 32);
      report.holds("names the cause", error.cause().find("out_of_range") != std::string::npos);
      report.holds("says so",
                   std::string(error.what()).find("constructor threw") != std::string::npos);
      throws<std::out_of_range>(report, "the nested cause", [&] { std::rethrow_if_nested(error); });
    } catch (const std::exception& error) {
      report.fail(std::string("another error: ") + error.what());
    }
  }
  const auto nested = mobula::try_get(
      mobula::task<calls_broken>.options({.max_retries = 0}).remote(broken), seconds(30));
  report.holds("in another process",
               !nested.has_value() &&
                   std::string(nested.error().what()).find("ActorDiedError") != std::string::npos);
  return report.exit_code();
}

int writes_and_dies() {
  std::cout << "printed to stdout\n";
  std::cerr << "printed to stderr\n";
  std::raise(SIGSEGV);
  return 0;
}

int tells_last_output(const Words&) {
  Report report;
  const auto dies = mobula::task<writes_and_dies>.options({.max_retries = 0});
  try {
    (void)mobula::get(dies.remote(), seconds(30));
    report.fail("nothing was thrown");
  } catch (const mobula::WorkerCrashedError& error) {
    report.equal("signal", error.signal(), SIGSEGV);
    for (const char* line : {"printed to stdout", "printed to stderr"}) {
      report.holds("log_tail() has the line", error.log_tail().find(line) != std::string::npos);
      report.holds("what() has the line",
                   std::string(error.what()).find(line) != std::string::npos);
    }
  }
  return report.exit_code();
}

int crashes_deep(int depth) {
  if (depth > 0) return crashes_deep(depth - 1) + 1;
  std::raise(SIGSEGV);
  return 0;
}
int overflows(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : overflows(depth + 1) + frame[0];
}
// The fault signals that this process handles.
bool handles_faults() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    struct sigaction seen {};
    ::sigaction(signal, nullptr, &seen);
    if (seen.sa_handler != SIG_DFL) return true;
  }
  return false;
}

int traces_crashes(const Words&) {
  Report report;
  const mobula::Environment traced{{"MOBULA_STACK_TRACES", "1"}};
  const auto text_of = [&](const auto& ref) -> std::string {
    try {
      (void)mobula::get(ref, seconds(30));
      report.fail("nothing was thrown");
      return "";
    } catch (const mobula::WorkerCrashedError& error) {
      report.equal("signal", error.signal(), SIGSEGV);
      return error.what();
    }
  };
  const auto has = [&](const std::string& text, const char* part) {
    report.holds((std::string(part) + " is in: " + text).c_str(),
                 text.find(part) != std::string::npos);
  };
  const auto deep =
      text_of(mobula::task<crashes_deep>.options({.max_retries = 0, .env = traced}).remote(2));
  has(deep, "mobula: native stack of thread");
  has(deep, "e2e_driver");
  has(text_of(mobula::task<overflows>.options({.max_retries = 0, .env = traced}).remote(0)),
      "mobula: native stack of thread");
  has(text_of(mobula::task<crashes_deep>.options({.max_retries = 0}).remote(2)),
      "MOBULA_STACK_TRACES=1");
  report.holds("no handler unless asked for",
               !mobula::get(mobula::task<handles_faults>.remote(), seconds(30)));
  return report.exit_code();
}

int speaks_first(int number) {
  std::cout << "line of first " << number << "\n";
  return number;
}
int speaks_second(int number) {
  std::cerr << "line of second " << number << "\n";
  return number;
}
// Runs in an executor that starts for this task alone.
int speaks_with_gpu(int number) {
  std::cout << "line of with_gpu " << number << "\n";
  return number;
}
class Speaker {
 public:
  Speaker() { std::cout << "line of Speaker 0\n"; }
  int speaks(int number) {
    std::cout << "line of Speaker " << number << "\n";
    return number;
  }
};

// Prints lines, among them one that looks like a line of the log of another task.
std::string prints_alike(const std::string& other) {
  const std::string id(mobula::current().task_id);
  std::cout << "own " << id << " one\n";
  std::cout << "own " << id << " [prints_alike task=" << other << " pid=" << ::getpid() << "] x\n";
  std::cout << "\x1e\x02mobula-task:" << other << "\x03\n";
  std::cerr << "own " << id << " two\n";
  return id;
}

// Tasks of one name that follow each other in one executor. Prints their ids.
int logs_of_tasks(const Words&) {
  std::string ids = "ids:";
  std::string last = "none";
  for (int i = 0; i < 4; ++i) {
    last = mobula::get(mobula::task<prints_alike>.remote(last), seconds(30));
    ids += " " + last;
  }
  tell(ids + ";");
  hear();
  return 0;
}

int throws_here(int number) {
  throw std::runtime_error("failure number " + std::to_string(number));
}
int passes_on(int number) { return number; }

// Two failures that are never read, and some that are.
int leaves_errors(const Words&) {
  Report report;
  const auto settled = [](const auto& ref) {
    (void)mobula::wait(std::vector{ref}, {.timeout = seconds(30)});
  };
  const auto kept = mobula::task<throws_here>.remote(1);
  settled(kept);
  {
    const auto dropped = mobula::task<throws_here>.remote(2);
    settled(dropped);
  }
  report.holds("read",
               !mobula::try_get(mobula::task<throws_here>.remote(3), seconds(30)).has_value());
  const auto source = mobula::task<throws_here>.remote(4);
  report.holds("read by its consumer",
               !mobula::try_get(mobula::task<passes_on>.remote(source), seconds(30)).has_value());
  return report.exit_code();
}

// Tasks of two functions alternate in one executor. Each output line is labeled with the function
// that printed it.
int labels_output(const Words&) {
  Report report;
  for (int i = 0; i < 10; ++i) {
    report.equal("first", mobula::get(mobula::task<speaks_first>.remote(i), seconds(30)), i);
    report.equal("second", mobula::get(mobula::task<speaks_second>.remote(i), seconds(30)), i);
  }
  const auto with_gpu = mobula::task<speaks_with_gpu>.options({.num_gpus = 1});
  for (int i = 0; i < 5; ++i)
    report.equal("with a GPU", mobula::get(with_gpu.remote(i), seconds(30)), i);
  auto speaker = mobula::actor<Speaker>.remote();
  for (int i = 1; i < 5; ++i)
    report.equal("actor", mobula::get(speaker.call<&Speaker::speaks>(i), seconds(30)), i);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> error_scenarios() {
  return {{"cancels_blocked", &cancels_blocked},
          {"blocks_in_calls", &blocks_in_calls},
          {"reads_after_output", &reads_after_output},
          {"force_cancels_actor_call", &force_cancels_actor_call},
          {"knows_executor", &knows_executor},
          {"names_task", &names_task},
          {"constructor_throws", &constructor_throws},
          {"tells_last_output", &tells_last_output},
          {"traces_crashes", &traces_crashes},
          {"labels_output", &labels_output},
          {"logs_of_tasks", &logs_of_tasks},
          {"leaves_errors", &leaves_errors}};
}

}  // namespace mobula::e2e
