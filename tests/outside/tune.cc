// A search, as a user would build it.
#include <mobula/tune.h>

#include <iostream>

namespace tune = mobula::tune;

void objective(const tune::Config& config) { tune::report({{"loss", config.number("x")}}); }

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  const auto results = tune::run<objective>(
      {.metric = "loss", .space = {{"x", tune::uniform(-1, 1)}}, .num_samples = 4});
  std::cout << results.all().size() << " trials\n";
}
