#include "tune/resource_runner.h"

#include <fmt/format.h>

#include <istream>
#include <optional>
#include <sstream>

#include "tune/core/schedulers/resource_distribution.h"
#include "tune/trace_runner.h"

namespace mobula::internal::tune {
namespace {

std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, mark);) parts.push_back(part);
  return parts;
}

ProcessorAmounts amounts_of(const std::string& word) {
  const auto parts = split(word, ',');
  return {std::stoll(parts.at(0)) * 10'000, std::stoll(parts.at(1)) * 10'000};
}

ProcessorBundles bundles_of_word(const std::string& word) {
  ProcessorBundles bundles;
  if (word == "-") return bundles;
  for (const std::string& part : split(word, '|')) bundles.push_back(amounts_of(part));
  return bundles;
}

bool equals_ray(const TraceWords& words) {
  const DistributionSettings settings{.add_bundles = words.at(0) == "1",
                                      .increase_by = amounts_of(words.at(1)),
                                      .increase_by_times = std::stoi(words.at(2)),
                                      .reserve = amounts_of(words.at(3)),
                                      .to_top_job = words.at(4) == "1",
                                      .mode = words.at(5) == "max" ? Mode::max : Mode::min};
  DistributionInput input{.total = amounts_of(words.at(6)),
                          .base = bundles_of_word(words.at(7)),
                          .reporter = std::stoul(words.at(8))};
  for (const std::string& bundles : split(words.at(9), ';'))
    input.trials.push_back(bundles_of_word(bundles));
  for (const std::string& value : split(words.at(10), ';'))
    input.values.push_back(value == "-" ? std::nullopt : std::optional(std::stod(value)));
  const auto result = distribute(settings, input);
  return result.ok() && *result == bundles_of_word(words.at(12));
}

}  // namespace

void ResourceRunner::run(std::istream& trace) {
  for (std::string line; std::getline(trace, line);) {
    ++compared_;
    if (equals_ray(words_of(line))) continue;
    ++difference_count_;
    if (differences_.size() < 10)
      differences_.push_back(fmt::format("line {}: '{}'", compared_, line));
  }
}

}  // namespace mobula::internal::tune
