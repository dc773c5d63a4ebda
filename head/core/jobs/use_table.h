// Counts of calls by function name, with histograms of waiting and running time, since the start of
// this head. Owners report their own totals (class_use.h); the table adds their growth, so a
// repeated report changes nothing, and a later one repairs a lost one. Calls that an owner had not
// reported when it was killed are not counted.
// Thread: owner (one HeadCore).
// Not: owners of earlier releases, which do not report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/id.h"
#include "base/time.h"
#include "head/core/nodes/label_values.h"
#include "protocol/messages/facts/class_use.h"

namespace mobula::internal::head {

struct UseTotals {
  std::uint64_t submitted = 0;
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t wait_us = 0;
  std::uint64_t run_us = 0;
  UseHistogram waits{};
  UseHistogram runs{};
};

class UseTable {
 public:
  static constexpr std::size_t max_names = 200;    // names with their own totals
  static constexpr std::size_t max_rows = 50'000;  // rows of live owners
  // A name without new calls for this time gives way to a new one. Its totals then count as
  // `other`, which thus never decreases.
  static constexpr Duration idle_name = std::chrono::hours(1);

  void update(ProcessId owner, const ClassUse& use, Time now);
  void ended(ProcessId owner);

  // Totals of the names, and of all others together.
  std::map<std::string, UseTotals> totals() const;
  const UseTotals& other() const { return other_; }
  // Mean run time in a class, over the calls of live owners; empty: none has ended.
  std::map<ClassId, Duration> mean_runs() const;
  // Rows that a report had beyond `max_rows`.
  std::uint64_t rejected_rows() const { return rejected_rows_; }

 private:
  struct Name {
    UseTotals totals;
    Time used;
  };
  using RowKey = std::pair<ClassId, std::string>;

  UseTotals& totals_of(const std::string& name, Time now);

  std::map<ProcessId, std::map<RowKey, ClassUseRow>> live_;  // latest report
  std::size_t rows_ = 0;                                     // in `live_`
  std::map<std::string, Name> names_;
  UseTotals other_;
  std::uint64_t rejected_rows_ = 0;
};

}  // namespace mobula::internal::head
