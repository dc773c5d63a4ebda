// Gathers what a process says of when its calls were: names once, times counted back from now. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "client/core/owned_spans.h"
#include "protocol/span_facts.h"

namespace mobula::internal::client {

class SpanAnswer {
 public:
  SpanAnswer(Time now, std::int64_t wall_us, const AskSpans& asked);

  // What it owns.
  void add(const OwnedCalls& calls);
  // Calls that it has run: rows with task, form, began, ended, failed. The latest, up to the limit.
  template <class Ran>
  void add_ran(const Ran& calls) {
    const std::size_t first = first_of(calls.size());
    told_.ran_forgotten += calls.forgotten() + first;
    for (std::size_t i = first; i < calls.size(); ++i) {
      const auto& each = calls[i];
      told_.ran.push_back({each.task, name_of(each.form->name), now_ - each.began, now_ - each.ended, each.failed});
    }
  }
  void add(TransfersTold transfers);

  SpansTold take() { return std::move(told_); }

 private:
  std::size_t first_of(std::size_t size) const { return size > limit_ ? size - limit_ : 0; }
  std::uint32_t name_of(const std::string& name);

  Time now_;
  std::size_t limit_;
  std::map<std::string, std::uint32_t> numbers_;
  SpansTold told_;
};

}  // namespace mobula::internal::client
