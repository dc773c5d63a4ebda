#include "sim/commands.h"

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/coverage_mark.h"
#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

// Names the history in the line that an aborting core prints.
char current_history[256];

void print_history(int death) {
  const ssize_t ignored =
      ::write(2, current_history, std::char_traits<char>::length(current_history));
  (void)ignored;
  std::signal(death, SIG_DFL);
  ::raise(death);
}

void name_history(const HistoryOptions& options) {
  std::snprintf(current_history, sizeof current_history,
                "died in this history:\n  mobula-sim --scenario %s --seed %llu --trace\n",
                options.scenario.c_str(), static_cast<unsigned long long>(options.seed));
}

Outcome run_here(const HistoryOptions& options) {
  name_history(options);
  return run_history(options);
}

std::vector<std::string> chosen_scenarios(const CommandOptions& options) {
  if (options.scenario != "all") return {options.scenario};
  std::vector<std::string> names;
  for (const auto& scenario : scenarios()) names.push_back(scenario.name);
  return names;
}

std::string mask_flags(const Mask& mask) {
  std::string text;
  for (const int item : mask.items) text += " --skip-items " + std::to_string(item);
  for (const int fault : mask.faults) text += " --skip-faults " + std::to_string(fault);
  return text;
}

// Shrinks the failed history, prints it, and prints the command that reproduces it.
int report(const HistoryOptions& options, const Outcome& failed) {
  std::printf("FAILED scenario %s seed %llu at %.3f s\n  checker %s: %s\n",
              options.scenario.c_str(), static_cast<unsigned long long>(options.seed),
              static_cast<double>(failed.end.ns() - 1'000'000'000) * 1e-9, failed.checker.c_str(),
              failed.text.c_str());
  HistoryOptions smaller = options;
  smaller.mask = shrink(options, failed);
  const Outcome outcome = run_guarded(smaller);
  std::printf(
      "smallest history that still fails:\n  mobula-sim --scenario %s --seed %llu --trace%s\n  "
      "checker %s: %s\n",
      options.scenario.c_str(), static_cast<unsigned long long>(options.seed),
      mask_flags(smaller.mask).c_str(), outcome.checker.c_str(), outcome.text.c_str());
  return 1;
}

int replay(const CommandOptions& options) {
  HistoryOptions history;
  history.seed = options.seed;
  history.scenario = options.scenario == "all" ? "everything" : options.scenario;
  history.mask = options.mask;
  history.trace = options.trace ? stdout : nullptr;
  if (!options.mutation.empty()) {
    const auto* mutation = find_mutation(options.mutation);
    if (mutation == nullptr) return 2;
    history.hooks = mutation->make();
  }
  const Outcome outcome = run_here(history);
  std::printf("%s seed %llu: %s, hash %016llx, %llu steps, %.3f s\n", history.scenario.c_str(),
              static_cast<unsigned long long>(history.seed), outcome.ok ? "ok" : "FAILED",
              static_cast<unsigned long long>(outcome.hash),
              static_cast<unsigned long long>(outcome.steps),
              static_cast<double>(outcome.end.ns() - 1'000'000'000) * 1e-9);
  if (!outcome.ok) std::printf("  checker %s: %s\n", outcome.checker.c_str(), outcome.text.c_str());
  return outcome.ok ? 0 : 1;
}

int sweep(const CommandOptions& options) {
  for (const auto& scenario : chosen_scenarios(options)) {
    std::uint64_t steps = 0, scale_downs = 0;
    for (std::uint64_t seed = options.first; seed <= options.last; ++seed) {
      HistoryOptions history;
      history.seed = seed;
      history.scenario = scenario;
      const Outcome outcome = run_here(history);
      steps += outcome.steps;
      scale_downs += outcome.scale_downs;
      if (options.hashes) {
        std::printf("%s %llu %016llx\n", scenario.c_str(), static_cast<unsigned long long>(seed),
                    static_cast<unsigned long long>(outcome.hash));
      }
      if (!outcome.ok && !options.hashes) return report(history, outcome);
    }
    if (!options.hashes) {
      std::printf("%-14s seeds %llu..%llu ok, %llu steps", scenario.c_str(),
                  static_cast<unsigned long long>(options.first),
                  static_cast<unsigned long long>(options.last),
                  static_cast<unsigned long long>(steps));
      if (scale_downs > 0)
        std::printf(", %llu scale-downs", static_cast<unsigned long long>(scale_downs));
      std::printf("\n");
      std::fflush(stdout);
    }
    if (scale_downs < options.scale_downs) {
      std::printf("FAILED scenario %s: %llu scale-downs, expected at least %llu; use more seeds\n",
                  scenario.c_str(), static_cast<unsigned long long>(scale_downs),
                  static_cast<unsigned long long>(options.scale_downs));
      return 1;
    }
  }
  return 0;
}

void print_marks() {
  std::printf("coverage marks:\n");
  std::string never;
  for (const auto& [name, count] : mark_counts()) {
    if (count == 0) {
      never += "\n  " + name;
    } else {
      std::printf("  %12llu %s\n", static_cast<unsigned long long>(count), name.c_str());
    }
  }
  std::printf("never hit:%s\n", never.empty() ? " none" : never.c_str());
}

int sweep_for(const CommandOptions& options) {
  const Time end = monotonic_now() + Duration(std::chrono::seconds(options.span_s));
  Random choice(options.start);
  const auto names = chosen_scenarios(options);
  std::uint64_t histories = 0, steps = 0;
  const Time began = monotonic_now();
  int code = 0;
  while (code == 0 && histories < options.at_most && monotonic_now() < end) {
    HistoryOptions history;
    history.scenario = names.at(choice.below(names.size()));
    history.seed = 1 + choice.below(1'000'000'000);
    const Outcome outcome = run_here(history);
    ++histories;
    steps += outcome.steps;
    if (!outcome.ok) code = report(history, outcome);
  }
  const double seconds = static_cast<double>((monotonic_now() - began).count()) * 1e-9;
  std::printf(
      "%llu histories of %zu scenarios drawn from start %llu, %llu events, %.1f histories/s\n",
      static_cast<unsigned long long>(histories), names.size(),
      static_cast<unsigned long long>(options.start), static_cast<unsigned long long>(steps),
      static_cast<double>(histories) / seconds);
  if (code == 0) print_marks();  // after a failure, the report must be the last output
  return code;
}

// Each mutation must be detected in one of its scenarios within these seeds. The unmodified product
// passes the same histories.
int prove_mutations(const CommandOptions& options) {
  const std::uint64_t last = options.last == 0 ? 60 : options.last;
  int missed = 0;
  std::printf("%-46s %-10s %s\n", "mutation", "checker", "history");
  for (const auto& mutation : mutations()) {
    if (!options.mutation.empty() && mutation.name != options.mutation) continue;
    bool caught = false;
    for (std::uint64_t seed = 1; seed <= last && !caught; ++seed) {
      for (const auto& scenario : mutation.scenarios) {
        HistoryOptions history;
        history.seed = seed;
        history.scenario = scenario;
        if (!run_guarded(history).ok) continue;  // proves nothing
        history.hooks = mutation.make();
        const Outcome outcome = run_guarded(history);
        if (outcome.ok) continue;
        std::printf("%-46s %-10s %s %llu\n", mutation.name.c_str(), outcome.checker.c_str(),
                    scenario.c_str(), static_cast<unsigned long long>(seed));
        caught = true;
        break;
      }
    }
    if (!caught) {
      std::printf("%-46s %-10s\n", mutation.name.c_str(), "NOT CAUGHT");
      ++missed;
    }
    std::fflush(stdout);
  }
  return missed == 0 ? 0 : 1;
}

int list() {
  for (const auto& scenario : scenarios()) std::printf("scenario %s\n", scenario.name.c_str());
  for (const auto& mutation : mutations()) std::printf("mutation %s\n", mutation.name.c_str());
  return 0;
}

}  // namespace

bool parse_range(const std::string& text, std::uint64_t& first, std::uint64_t& last) {
  const auto dots = text.find("..");
  if (dots == std::string::npos) return false;
  char* end = nullptr;
  first = std::strtoull(text.c_str(), &end, 10);
  last = std::strtoull(text.c_str() + dots + 2, &end, 10);
  return *end == 0 && first <= last;
}

int run_command(const CommandOptions& options) {
  for (const int death : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(death, print_history);
  if (options.scenario != "all" && find_scenario(options.scenario) == nullptr) {
    std::fprintf(stderr, "--scenario %s: unknown scenario; see --list\n", options.scenario.c_str());
    return 2;
  }
  if (options.list) return list();
  if (options.mutations) return prove_mutations(options);
  if (options.sweep) return sweep(options);
  if (options.span_s > 0) return sweep_for(options);
  return replay(options);
}

}  // namespace mobula::internal::sim
