// mobula-sim: runs histories of a simulated cluster.
#include <CLI/CLI.hpp>

#include "sim/commands.h"
#include "sim/replay.h"

int main(int argc, char** argv) {
  CLI::App app{"Runs histories of a simulated Mobula cluster, each from one seed."};
  mobula::internal::sim::CommandOptions options;
  std::string seeds, span;
  std::vector<std::string> recordings;
  app.add_option("--seed", options.seed, "one history, printed");
  app.add_option("--scenario", options.scenario, "its scenario, or `all` for sweeps");
  app.add_flag("--trace", options.trace, "print every step");
  app.add_option("--seeds", seeds, "sweep seeds A..B");
  app.add_option("--scale-downs", options.scale_downs,
                 "with --seeds: fail if a scenario has fewer scale-downs of a fleet");
  app.add_option("--for", span, "sweep random scenarios for a duration, as 60s");
  app.add_option("--start", options.start, "with --for: another start draws other histories");
  app.add_option("--at-most", options.at_most, "with --for: the limit on the number of histories");
  app.add_flag("--hashes", options.hashes, "print `scenario seed hash` of each history");
  app.add_flag("--mutations", options.mutations, "prove that the checkers catch deliberate bugs");
  app.add_option("--mutation", options.mutation, "with --seed: the history with this bug");
  app.add_option("--skip-items", options.mask.items, "items of the history to leave out");
  app.add_option("--skip-faults", options.mask.faults, "faults of the history to leave out");
  app.add_option("--replay", recordings, "replay these recordings of real processes");
  app.add_flag("--list", options.list, "list scenarios and mutations");
  CLI11_PARSE(app, argc, argv);
  if (!recordings.empty()) {
    return mobula::internal::sim::replay_files(recordings, options.trace);
  }
  if (!seeds.empty() && !mobula::internal::sim::parse_range(seeds, options.first, options.last)) {
    std::fprintf(stderr, "--seeds %s: expected A..B\n", seeds.c_str());
    return 2;
  }
  options.sweep = !seeds.empty();
  if (!span.empty()) options.span_s = std::stoi(span);
  return mobula::internal::sim::run_command(options);
}
