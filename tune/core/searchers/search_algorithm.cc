#include "tune/core/searchers/search_algorithm.h"

#include <algorithm>

namespace mobula::internal::tune {

Result<SearchSpace> SearchSpace::make(const Space& space) {
  if (Result<void> checked = space.check(); !checked) return checked.error();
  SearchSpace made;
  for (const auto& [name, domain] : space) {
    Result<Dimension> dimension = dimension_of(name, domain);
    if (!dimension) return dimension.error();
    made.parameters_.push_back({.name = name,
                                .dimension = std::move(*dimension),
                                .condition = domain.condition,
                                .constant = domain.kind == DomainKind::constant});
  }
  // Conditions have no circle, so each pass moves at least one parameter behind its parent.
  std::vector<Parameter> ordered;
  std::vector<bool> placed(made.parameters_.size());
  while (ordered.size() < made.parameters_.size()) {
    for (std::size_t i = 0; i < made.parameters_.size(); ++i) {
      const Parameter& parameter = made.parameters_[i];
      const bool ready = !parameter.condition ||
                         std::any_of(ordered.begin(), ordered.end(), [&](const Parameter& other) {
                           return other.name == parameter.condition->parameter;
                         });
      if (placed[i] || !ready) continue;
      placed[i] = true;
      ordered.push_back(parameter);
    }
  }
  made.parameters_ = std::move(ordered);
  return made;
}

Result<void> SearchAlgorithm::begin(TrialNumber /*trial*/, SearchRandom /*random*/) {
  return failure(ErrorCode::invalid_argument,
                 "Study: the searcher needs a space; use TPESearch for define-by-run trials");
}

Result<Value> SearchAlgorithm::suggest(TrialNumber /*trial*/, std::string_view /*name*/,
                                       const Dimension& /*dimension*/, SearchRandom /*random*/) {
  return failure(ErrorCode::invalid_argument,
                 "Study: the searcher needs a space; use TPESearch for define-by-run trials");
}

}  // namespace mobula::internal::tune
