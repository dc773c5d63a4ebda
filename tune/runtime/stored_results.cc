#include "tune/runtime/stored_results.h"

#include <functional>
#include <utility>

#include <mobula/errors.h>

#include "tune/api/core_values.h"
#include "tune/store/experiment_reader.h"

namespace mobula::internal::tune {
namespace {

constexpr std::size_t most_in_memory = 1'000;

using api::detail::ResultSource;
using VisitResult = std::function<void(api::TrialResult&&)>;

class MemoryResults final : public ResultSource {
 public:
  explicit MemoryResults(std::vector<api::TrialResult> results) : results_(std::move(results)) {}
  std::size_t size() const override { return results_.size(); }
  void each(const VisitResult& visit) const override {
    for (const api::TrialResult& result : results_) visit(api::TrialResult(result));
  }

 private:
  std::vector<api::TrialResult> results_;
};

Result<void> read_results(ExperimentReader& reader, const VisitResult& visit) {
  return reader.each_outcome(
      [&](const StoredTrial& trial, const TrialOutcome& outcome) -> Result<void> {
        api::TrialResult result{.trial = trial.trial,
                                .config = api_config(trial.config),
                                .metrics = api_metrics(outcome.metrics),
                                .warnings = outcome.warnings,
                                .attempts = static_cast<int>(trial.attempts),
                                .checkpoint = outcome.checkpoint};
        if (trial.state == TrialState::failed) result.error = trial.error;
        visit(std::move(result));
        return {};
      });
}

class FileResults final : public ResultSource {
 public:
  FileResults(ExperimentReader reader, std::size_t size)
      : reader_(std::move(reader)), size_(size) {}
  std::size_t size() const override { return size_; }
  void each(const VisitResult& visit) const override {
    if (const auto done = read_results(reader_, visit); !done)
      throw Error("ResultGrid: " + done.error().text);
  }

 private:
  mutable ExperimentReader reader_;
  std::size_t size_;
};

}  // namespace

std::shared_ptr<const ResultSource> results_in_memory(std::vector<api::TrialResult> results) {
  return std::make_shared<MemoryResults>(std::move(results));
}

Result<std::shared_ptr<const ResultSource>> stored_results(const ExperimentLocation& location,
                                                           std::size_t trials) {
  auto reader = ExperimentReader::open(location);
  if (!reader) return reader.error();
  if (trials > most_in_memory)
    return std::shared_ptr<const ResultSource>(
        std::make_shared<FileResults>(std::move(*reader), trials));
  std::vector<api::TrialResult> results;
  const auto done = read_results(
      *reader, [&](api::TrialResult&& result) { results.push_back(std::move(result)); });
  if (!done) return done.error();
  return results_in_memory(std::move(results));
}

}  // namespace mobula::internal::tune
