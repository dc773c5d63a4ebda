// Actors with thousands of calls that are not complete while their node, process, or driver ends.
#include <mobula/awaitable.h>

#include <chrono>
#include <filesystem>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {
namespace deferred {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int calls = 1'000;

// Keeps its calls until `answer`.
class Board {
 public:
  Deferred<int> submit(int x) {
    waiting_.emplace_back(x, Promise<int>());
    return waiting_.back().second.get_deferred();
  }
  int waiting() { return static_cast<int>(waiting_.size()); }
  void answer() {
    for (auto& [x, promise] : waiting_) promise.set_value(2 * x);
    waiting_.clear();
  }
  std::string node() { return mobula::current().node_id; }

 private:
  std::vector<std::pair<int, Promise<int>>> waiting_;
};

class Sleeper {
 public:
  Awaitable<int> sleep(int span_ms) {
    ++sleeping_;
    co_await mobula::sleep_for(milliseconds(span_ms));
    co_return span_ms;
  }
  int sleeping() { return sleeping_; }

 private:
  int sleeping_ = 0;
};

ActorOptions on_node(const std::string& node, int restarts) {
  return {.num_cpus = 0,
          .scheduling = NodeAffinity{node, true},
          .max_restarts = restarts,
          .max_task_retries = restarts,
          .max_concurrency = 2 * calls};
}

std::vector<ObjectRef<int>> submit(const ActorHandle<Board>& board) {
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < calls; ++i) refs.push_back(board.call<&Board::submit>(i));
  return refs;
}
std::vector<ObjectRef<int>> sleep(const ActorHandle<Sleeper>& sleeper, milliseconds span) {
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < calls; ++i)
    refs.push_back(sleeper.call<&Sleeper::sleep>(static_cast<int>(span.count())));
  return refs;
}

template <class Condition>
bool until(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}
bool all_wait(const ActorHandle<Board>& board) {
  return until([&] { return get(board.call<&Board::waiting>(), seconds(30)) == calls; });
}
bool all_sleep(const ActorHandle<Sleeper>& sleeper) {
  return until([&] { return get(sleeper.call<&Sleeper::sleeping>(), seconds(30)) == calls; });
}
void expect_deaths(Report& report, const std::vector<ObjectRef<int>>& refs) {
  for (const auto& each : refs)
    throws<ActorDiedError>(report, "a call of an ended actor", [&] { get(each, seconds(30)); });
}

// A drain cuts calls that last longer than its deadline. Actors with restarts left repeat them.
int drained_with_incomplete_calls(const Words& arguments) {
  const std::string& node = arguments.at(0);
  Report report;
  const auto sleeper = actor<Sleeper>.options(on_node(node, 0)).remote();
  const auto board = actor<Board>.options(on_node(node, 0)).remote();
  const auto restarted = actor<Board>.options(on_node(node, 1)).remote();
  const auto cut = sleep(sleeper, seconds(3600));
  const auto lost = submit(board), repeated = submit(restarted);
  report.holds("coroutines are suspended", all_sleep(sleeper));
  report.holds("calls wait", all_wait(board) && all_wait(restarted));
  report.equal("node", get(restarted.call<&Board::node>(), seconds(30)), node);
  const auto brief = actor<Sleeper>.options(on_node(node, 0)).remote();
  const auto complete = sleep(brief, milliseconds(300));
  tell("ready");
  hear();
  for (const auto& each : complete) report.equal("brief call", get(each, seconds(30)), 300);
  expect_deaths(report, cut);
  expect_deaths(report, lost);
  report.holds("calls wait again", all_wait(restarted));
  report.holds("other node", get(restarted.call<&Board::node>(), seconds(30)) != node);
  get(restarted.call<&Board::answer>(), seconds(30));
  for (int i = 0; i < calls; ++i)
    report.equal("repeated call", get(repeated[static_cast<std::size_t>(i)], seconds(30)), 2 * i);
  return report.exit_code();
}

// Yields half of its items at once, and the others when the file exists.
generator<int> halves(int count, std::string gate) {
  for (int i = 0; i < count; ++i) {
    while (i == count / 2 && !std::filesystem::exists(gate))
      std::this_thread::sleep_for(milliseconds(10));
    co_yield i;
  }
}
class Streamer {
 public:
  generator<int> halves(int count, std::string gate) { return deferred::halves(count, gate); }
};

// A drain cuts streams whose consumers have taken half of their items. A task continues elsewhere
// and repeats no item; the stream of an actor without restarts ends with an error.
int drained_with_streams(const Words& arguments) {
  const std::string &node = arguments.at(0), &gate = arguments.at(1);
  constexpr int count = 20;
  Report report;
  const TaskOptions there{.num_cpus = 0, .scheduling = NodeAffinity{node, true}};
  auto moved = task<halves>.options(there).remote(count, gate);
  const auto streamer = actor<Streamer>.options(on_node(node, 0)).remote();
  auto ended = streamer.call<&Streamer::halves>(count, gate);
  for (auto* stream : {&moved, &ended}) {
    for (int i = 0; i < count / 2; ++i)
      report.equal("item before", get(*stream->next(seconds(30)), seconds(30)), i);
  }
  tell("ready");
  hear();
  std::ofstream{gate};
  throws<ActorDiedError>(report, "a stream of an ended actor",
                         [&] { (void)ended.next(seconds(60)); });
  for (int i = count / 2; i < count; ++i)
    report.equal("item after", get(*moved.next(seconds(60)), seconds(60)), i);
  report.holds("end of the stream", !moved.next(seconds(60)));
  return report.exit_code();
}

// The driver ends, or is killed, with calls that are never complete.
int ends_with_incomplete_calls(const Words&) {
  const auto sleeper = actor<Sleeper>.options({.max_concurrency = 2 * calls}).remote();
  const auto board = actor<Board>.options({.max_concurrency = 2 * calls}).remote();
  const auto suspended = sleep(sleeper, seconds(3600));
  const auto waiting = submit(board);
  Report report;
  report.holds("calls are incomplete", all_sleep(sleeper) && all_wait(board));
  tell("ready");
  hear();
  return report.exit_code();
}

}  // namespace deferred
}  // namespace

std::map<std::string, Scenario> deferred_scenarios() {
  using namespace deferred;
  return {{"drained_with_incomplete_calls", &drained_with_incomplete_calls},
          {"drained_with_streams", &drained_with_streams},
          {"ends_with_incomplete_calls", &ends_with_incomplete_calls}};
}

}  // namespace mobula::e2e
