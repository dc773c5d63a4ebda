// Values of a label of metrics that come from users. The first `max_values` texts are values, and
// all others are `other`, so that a scrape has a limited number of rows.
// Thread: owner (one HeadCore).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/time.h"

namespace mobula::internal::head {

// The text as a value: valid UTF-8, without which Prometheus rejects the whole scrape, and of at
// most LabelValues::max_bytes, cut at the start of a character. Empty for `other`, which no user
// may have a second time.
std::string label_value(std::string_view text);

class LabelValues {
 public:
  static constexpr std::size_t max_values = 100;
  static constexpr std::size_t max_bytes = 128;  // longer texts are cut
  static constexpr const char* other = "other";
  // A value that no scrape has had for this time gives way to a new one.
  static constexpr Duration idle_value = std::chrono::hours(1);

  // A scrape at `now` first notes its texts, so that none of them gives way to another. Then it
  // gets the value of each: its own, or `other`.
  void note(std::string_view text, Time now);
  std::string value_of(std::string_view text, Time now);

 private:
  std::map<std::string, Time> used_;  // latest use, by value
  Time idle_since_;                   // no value was last used before this time
};

}  // namespace mobula::internal::head
