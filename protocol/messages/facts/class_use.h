// Totals of the calls that one owner (a driver or an executor) has submitted, by class and function
// name, since its start. A report contains the rows that changed since the last one; the totals of
// a row replace earlier ones, so a report may be repeated, and a later one repairs a lost one.
// Thread: owner (plain values).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/time.h"

namespace mobula::internal {

// Histograms of durations: bucket i counts durations up to 2^i ms, the last one longer ones.
inline constexpr std::size_t use_buckets = 24;
using UseHistogram = std::array<std::uint64_t, use_buckets>;

constexpr std::size_t use_bucket_of(Duration span) {
  const std::int64_t ns = span.count();
  if (ns <= 1'000'000) return 0;
  const auto width = std::bit_width(static_cast<std::uint64_t>(ns - 1) / 1'000'000);
  return std::min(static_cast<std::size_t>(width), use_buckets - 1);
}

// A bucket that is not empty.
struct UseBucket {
  std::uint8_t bucket = 0;
  std::uint64_t count = 0;
  MOBULA_FIELDS(bucket, count);
  friend bool operator==(const UseBucket&, const UseBucket&) = default;
};

// Once all calls have ended, `submitted` is the sum of the three ends.
struct ClassUseRow {
  ClassId demand_class;         // empty: calls of actors, or of several classes
  std::string name;             // function or method; empty: names beyond the limit of the owner
  std::uint64_t submitted = 0;  // includes tasks that were taken over or recomputed
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;  // includes tasks that were handed over
  // Sums in µs, since 64 bits of ns would overflow within days of a large service.
  std::uint64_t wait_us = 0;  // from submission to the last send to an executor
  std::uint64_t run_us = 0;   // run time of user code, as reported in replies
  std::vector<UseBucket> waits;
  std::vector<UseBucket> runs;
  MOBULA_FIELDS(demand_class, name, submitted, finished, failed, cancelled, wait_us, run_us, waits,
                runs);
  friend bool operator==(const ClassUseRow&, const ClassUseRow&) = default;
};

struct ClassUse {
  std::vector<ClassUseRow> rows;
  MOBULA_FIELDS(rows);
  friend bool operator==(const ClassUse&, const ClassUse&) = default;
};

}  // namespace mobula::internal
