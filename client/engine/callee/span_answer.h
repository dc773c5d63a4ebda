// Builds the reply of a process to a query for spans: each name once, and times as ages relative to
// now.
// Thread: owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "client/core/owned_spans.h"
#include "protocol/messages/facts/span_facts.h"

namespace mobula::internal::client {

class SpanAnswer {
 public:
  SpanAnswer(Time now, std::int64_t wall_us, const SpansRequest& query);

  // Adds the spans of calls that this process owns.
  void add(const OwnedCalls& calls);
  // Adds calls that this process ran, as rows with task, form, began, ended, failed: the latest, up
  // to the limit.
  template <class Ran>
  void add_ran(const Ran& calls) {
    const std::size_t first = first_of(calls.size());
    reply_.ran_forgotten += calls.forgotten() + first;
    const auto beside = task_.empty() ? std::optional<std::pair<Time, Time>>() : span_of(calls);
    if (!task_.empty() && !beside) return;
    for (std::size_t i = beside ? 0 : first; i < calls.size() && reply_.ran.size() < limit_; ++i) {
      const auto& each = calls[i];
      const bool apart = beside && (each.ended < beside->first || each.began > beside->second) &&
                         each.task != task_;
      if (apart) continue;
      reply_.ran.push_back(
          {each.task, name_of(each.form->name), now_ - each.began, now_ - each.ended, each.failed});
    }
  }
  void add(TransfersReply transfers);
  void set_trace_parent(std::string text) { reply_.trace_parent = std::move(text); }

  SpansReply take() { return std::move(reply_); }

 private:
  static constexpr Duration beside_task = std::chrono::milliseconds(50);

  // The run of the queried task, with a margin.
  template <class Ran>
  std::optional<std::pair<Time, Time>> span_of(const Ran& calls) const {
    for (std::size_t i = calls.size(); i > 0; --i) {
      const auto& each = calls[i - 1];
      if (each.task == task_) return std::pair(each.began - beside_task, each.ended + beside_task);
    }
    return std::nullopt;
  }
  std::size_t first_of(std::size_t size) const { return size > limit_ ? size - limit_ : 0; }
  std::uint32_t name_of(const std::string& name);

  Time now_;
  std::size_t limit_;
  TaskId task_;  // empty: all tasks
  std::map<std::string, std::uint32_t> numbers_;
  SpansReply reply_;
};

}  // namespace mobula::internal::client
