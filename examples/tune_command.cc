// Trials of a program: any language, with parameters as arguments and reports as lines of JSON.
#include <mobula/tune.h>

#include <iostream>
#include <string>

#include "where.h"

namespace tune = mobula::tune;

const std::string program = R"(
import json, os, sys
reports = os.fdopen(int(os.environ["MOBULA_TUNE_FD"]), "w", buffering=1)
x = float(sys.argv[1].split("=")[1])
for step in range(1, 6):
    reports.write(json.dumps({"loss": (x - 2) ** 2 + 1 / step}) + "\n")
)";

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv, own_cluster_with({.num_cpus = 4}));
  const auto results = tune::run(tune::Command{{"python3", "-c", program, "--x={x}"}},
                                 {.metric = "loss",
                                  .space = {{"x", tune::uniform(-5, 5)}},
                                  .num_samples = 8,
                                  .search_alg = tune::TPESearch({.n_startup_trials = 4})});
  for (const auto& result : results.all())
    if (!result.error.empty()) std::cerr << result.error << "\n";
  std::cout << results.best().config << " " << results.best().metrics.at("loss") << "\n";
}
