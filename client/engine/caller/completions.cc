#include "client/engine/caller/completions.h"

#include <algorithm>
#include <string>
#include <utility>

namespace mobula::internal::client {

std::uint64_t Completions::add(SinkPtr sink) {
  if (ended_) return 0;
  sinks_.insert(++last_sink_, std::move(sink));
  return last_sink_;
}

Completions::SinkPtr Completions::remove(std::uint64_t sink) {
  const auto* known = sinks_.find(sink);
  if (known == nullptr) return nullptr;
  SinkPtr removed = *known;
  sinks_.erase(sink);
  return removed;
}

void Completions::report(const ObjectReported& report) {
  ++reports_;
  const auto* sink = sinks_.find(report.sink);
  if (sink != nullptr) (*sink)->reported(report.token);
  // Without a sink, the report still releases the object.
  if (report.held || (sink != nullptr && (*sink)->runs_code())) {
    pending_.push_back(
        {sink == nullptr ? nullptr : *sink, report.token, report.object, report.held});
  }
}

std::vector<Completions::Report> Completions::take(std::size_t limit) {
  const std::size_t end = std::min(pending_.size(), next_pending_ + limit);
  std::vector<Report> taken(
      std::make_move_iterator(pending_.begin() + static_cast<std::ptrdiff_t>(next_pending_)),
      std::make_move_iterator(pending_.begin() + static_cast<std::ptrdiff_t>(end)));
  next_pending_ = end;
  if (next_pending_ == pending_.size()) {
    pending_.clear();
    next_pending_ = 0;
  }
  return taken;
}

std::vector<Completions::SinkPtr> Completions::end() {
  ended_ = true;
  std::vector<SinkPtr> ended;
  for (auto& [number, sink] : sinks_) ended.push_back(std::move(sink));
  sinks_.clear();
  return ended;
}

Failure callback_failure(std::string_view operation) {
  return failure(ErrorCode::invalid_argument, detail::callback_refusal(operation));
}

}  // namespace mobula::internal::client
