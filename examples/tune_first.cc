// Finds the minimum of a function with 20 random trials.
#include <mobula/tune.h>

#include <cmath>
#include <iostream>

namespace tune = mobula::tune;

void objective(const tune::Config& config) {
  const double x = config.number("x");
  for (int step = 1; step <= 3; ++step) tune::report({{"loss", std::pow(x - 2, 2) + 1.0 / step}});
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  const auto results = tune::run<objective>(
      {.metric = "loss", .space = {{"x", tune::uniform(-5, 5)}}, .num_samples = 20});
  std::cout << "best: " << results.best().config << " of " << results.all().size() << " trials\n";
}
