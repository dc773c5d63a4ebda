// Runs histories in child processes, so that an aborting core is one more kind of failure. Searches
// for the smallest history that still fails.
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/codec/codec.h"
#include "sim/commands.h"
#include "sim/fleet/fleet_world.h"

namespace mobula::internal::sim {
namespace {

// An outcome that the child sends to its parent.
struct Report {
  bool ok = true;
  std::string checker;
  std::string text;
  std::uint64_t hash = 0;
  std::uint64_t steps = 0;
  MOBULA_FIELDS(ok, checker, text, hash, steps);
};

[[noreturn]] void run_child(const HistoryOptions& options, int out) {
  const Outcome outcome = run_history(options);
  const Bytes bytes =
      encode(Report{outcome.ok, outcome.checker, outcome.text, outcome.hash, outcome.steps});
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = ::write(out, bytes.data() + written, bytes.size() - written);
    if (n <= 0) break;
    written += static_cast<std::size_t>(n);
  }
  std::fflush(stdout);
  ::_exit(0);
}

// Draws the plan of the masked history, to measure its remaining size.
HistoryPlan plan_of(const HistoryOptions& options) {
  const Random random(options.seed ^ fnv1a(options.scenario));
  return draw(*find_scenario(options.scenario), random.fork("plan"));
}

}  // namespace

Outcome run_history(const HistoryOptions& options) {
  if (options.scenario.starts_with("fleet")) return FleetWorld(options).run();
  World world(options);
  return world.run();
}

Outcome run_guarded(const HistoryOptions& options) {
  int ends[2];
  if (::pipe(ends) != 0) return {false, "pipe", "no pipe for the child", 0, 0, {}};
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    run_child(options, ends[1]);
  }
  ::close(ends[1]);
  Bytes bytes;
  std::byte buffer[4096];
  for (ssize_t n = ::read(ends[0], buffer, sizeof buffer); n > 0;
       n = ::read(ends[0], buffer, sizeof buffer)) {
    bytes.insert(bytes.end(), buffer, buffer + n);
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  const auto report = decode<Report>(bytes);
  if (!WIFEXITED(status) || !report) {
    return {false, "abort", "a core has aborted, see above", 0, 0, {}};
  }
  return {report->ok, report->checker, report->text, report->hash, report->steps, {}};
}

Mask shrink(const HistoryOptions& options, const Outcome& failed) {
  HistoryOptions smaller = options;
  smaller.trace = nullptr;
  const HistoryPlan plan = plan_of(options);
  const auto without = [&](std::set<int> Mask::*part, std::size_t count) {
    for (int i = static_cast<int>(count) - 1; i >= 0; --i) {
      auto& left_out = smaller.mask.*part;
      if (!left_out.insert(i).second) continue;
      const Outcome outcome = run_guarded(smaller);
      if (outcome.ok || outcome.checker != failed.checker) left_out.erase(i);
    }
  };
  without(&Mask::faults, plan.faults.size());
  without(&Mask::items, plan.items.size());
  without(&Mask::faults, plan.faults.size());
  return smaller.mask;
}

}  // namespace mobula::internal::sim
