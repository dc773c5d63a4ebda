#include "cli/commands/logs/task_log_window.h"

#include <algorithm>
#include <chrono>

namespace mobula::internal::cli {
namespace {

std::int64_t us(Duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

}  // namespace

std::optional<TaskLogWindow> run_of(std::span<const ProcessSpans> processes, TaskId task) {
  for (const auto& each : processes) {
    const auto& calls = each.spans.ran;
    const auto ran = std::ranges::find(calls, task, &RanSpan::task);
    if (ran == calls.end()) continue;
    const auto at = [&](Duration ago) { return each.spans.wall_us - us(ago); };
    std::int64_t until = at(ran->ended) + us(read_at_last);
    for (const auto& other : calls) {
      const bool follows = other.task != task && at(other.began) >= at(ran->ended);
      if (follows)
        until = std::min(until, std::max(at(ran->ended), at(other.began)) + us(read_soon));
    }
    TaskLogWindow run{each.process, {at(ran->began), until, 0}, 0};
    for (const auto& other : calls) {
      const bool among =
          at(other.began) < until && at(other.ended) + us(read_soon) > run.lines.from_us;
      run.beside += other.task != task && among ? 1 : 0;
    }
    return run;
  }
  return std::nullopt;
}

}  // namespace mobula::internal::cli
