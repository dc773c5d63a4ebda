// Stages of one call: each side records when the last call passed a stage, on the machine's
// monotonic clock. The next call returns the executor's times, so calls run one at a time on one
// executor.
#include <mobula/mobula.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/measure/profile.h"
#include "mobula/detail/stages.h"

namespace mobula::bench {
namespace {

using detail::Stage;
using detail::stage_count;
using Passed = std::vector<std::int64_t>;  // ns by stage

// Times as user code sees them. `ended` and `answered` are those of the previous call.
Passed passed_stages() {
  auto& stages = detail::stages();
  stages.record();
  Passed passed;
  for (std::size_t i = 0; i < stage_count; ++i)
    passed.push_back(stages.last(static_cast<Stage>(i)));
  return passed;
}

class ProfiledActor {
 public:
  Passed passed() { return passed_stages(); }
};

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Span {
  const char* name;
  const char* what;
};

// From each stage to the next, and to the return of get.
constexpr Span spans[stage_count] = {
    {"submit", "the record of the call, and its bytes"},
    {"ring", "into the ring; wakes the executor if it sleeps"},
    {"wake", "until the executor has read it: spinning, or a wake-up"},
    {"dispatch", "decoded, admitted, its context made"},
    {"run", "user code"},
    {"reply", "the result's bytes, into the ring"},
    {"wake back", "until the caller has read it"},
    {"get", "decoded, settled, handed to user code"},
};

struct Call {
  Passed at;  // by stage
  std::int64_t got = 0;
};

// `call` makes one call and waits for its result.
std::vector<ProfileRow> profile_of(const std::string& kind, int calls,
                                   std::chrono::microseconds pause,
                                   const std::function<Passed()>& call) {
  std::vector<Call> seen;
  for (int i = 0; i < calls; ++i) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const Passed there = call();
    Call each{passed_stages(), now()};
    for (const Stage stage : {Stage::arrived, Stage::started}) {
      each.at[static_cast<std::size_t>(stage)] = there[static_cast<std::size_t>(stage)];
    }
    if (!seen.empty()) {
      for (const Stage stage : {Stage::ended, Stage::answered}) {
        seen.back().at[static_cast<std::size_t>(stage)] = there[static_cast<std::size_t>(stage)];
      }
    }
    seen.push_back(std::move(each));
  }
  std::vector<std::vector<double>> times(stage_count + 1);
  for (std::size_t i = seen.size() / 10; i + 1 < seen.size(); ++i) {
    const auto& call_seen = seen[i];
    auto edges = call_seen.at;
    // The other side may read the ring before this side has read the clock.
    for (const Stage stage : {Stage::sent, Stage::answered}) {
      auto& mine = edges[static_cast<std::size_t>(stage)];
      mine = std::min(mine, edges[static_cast<std::size_t>(stage) + 1]);
    }
    edges.push_back(call_seen.got);
    // The call took another path.
    if (!std::is_sorted(edges.begin(), edges.end()) || edges.front() == 0) continue;
    for (std::size_t k = 0; k < stage_count; ++k)
      times[k].push_back(static_cast<double>(edges[k + 1] - edges[k]) / 1000);
    times[stage_count].push_back(static_cast<double>(edges.back() - edges.front()) / 1000);
  }
  std::vector<ProfileRow> rows;
  for (std::size_t k = 0; k <= stage_count; ++k) {
    auto& column = times[k];
    if (column.empty()) throw std::runtime_error("no call went by ring from end to end");
    std::sort(column.begin(), column.end());
    rows.push_back({kind, k < stage_count ? spans[k].name : "all",
                    k < stage_count ? spans[k].what : "from submission to the result",
                    column[column.size() / 2], column[column.size() * 9 / 10],
                    static_cast<int>(column.size())});
  }
  return rows;
}

}  // namespace

std::vector<ProfileRow> profile(int calls) {
  using namespace std::chrono_literals;
  const auto cluster = init({.num_cpus = 1});
  const auto task_call = [] { return get(task<passed_stages>.remote()); };
  std::vector<ProfileRow> rows = profile_of("tasks, one after another", calls, 0us, task_call);
  const auto add = [&](std::vector<ProfileRow> more) {
    rows.insert(rows.end(), more.begin(), more.end());
  };
  add(profile_of("tasks, 2 ms apart", std::max(20, calls / 10), 2ms, task_call));
  const auto server = actor<ProfiledActor>.options({.num_cpus = 0}).remote();
  const auto actor_call = [&] { return get(server.call<&ProfiledActor::passed>()); };
  add(profile_of("actor calls, one after another", calls, 0us, actor_call));
  return rows;
}

void print_profile(const std::vector<ProfileRow>& rows) {
  std::string kind;
  for (const auto& row : rows) {
    if (row.kind != kind) {
      std::printf("%s%s (%d calls)\n  %-10s %10s %10s  %s\n", kind.empty() ? "" : "\n",
                  row.kind.c_str(), row.calls, "stage", "median us", "p90 us", "what");
    }
    kind = row.kind;
    std::printf("  %-10s %10.2f %10.2f  %s\n", row.stage.c_str(), row.median_us, row.p90_us,
                row.what.c_str());
  }
}

}  // namespace mobula::bench
