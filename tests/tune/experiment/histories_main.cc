// Plays drawn histories of the core of an experiment: random schedulers, searchers, reports,
// failures, kills, and resumes. Prints each fault, and the number of histories.
// usage: mobula-tune-histories [HISTORIES [FIRST_SEED]]   (default: 2,000 from seed 1)
#include <fmt/format.h>

#include <cstdlib>

#include "tune/experiment/experiment_world.h"

int main(int argc, char** argv) {
  using namespace mobula::internal::tune;
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2'000;
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::uint64_t faulty = 0;
  std::uint64_t events = 0;
  std::uint64_t killed = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const DrawnHistory drawn = draw_history(seed);
    ExperimentWorld world(drawn.options, seed);
    world.play(drawn.kill_at);
    events += world.events().size();
    killed += drawn.kill_at ? 1 : 0;
    if (world.faults().empty()) continue;
    ++faulty;
    for (const std::string& fault : world.faults())
      fmt::print("history {} ({}, {}): {}\n", seed, drawn.options.scheduler, drawn.options.searcher,
                 fault);
  }
  fmt::print("{} histories with {} events, {} with kills: {} faulty\n", count, events, killed,
             faulty);
  return faulty == 0 ? 0 : 1;
}
