// Writes metrics in the text format of Prometheus, version 0.0.4: families with their samples.
// Thread: owner. Units: seconds, bytes, and ratios, as in the names of the metrics.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "protocol/messages/facts/class_use.h"

namespace mobula::internal::head {

class MetricsWriter {
 public:
  // Begins a family. Its samples follow before the next one begins.
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(out(), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  // `labels` is the result of label(), several joined by commas, or empty.
  template <class Value>
  void sample(std::string_view labels, Value value) {
    write(name_, "", labels, value);
  }
  // A histogram of durations in seconds.
  void histogram(std::string_view labels, const UseHistogram& counts, std::uint64_t total_us);

  static std::string label(std::string_view name, std::string_view value);
  template <class... More>
  static std::string labels(std::string_view name, std::string_view value, More... more) {
    if constexpr (sizeof...(more) == 0) {
      return label(name, value);
    } else {
      return label(name, value) + "," + labels(more...);
    }
  }
  std::string take() && { return std::move(text_); }

 private:
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }
  template <class Value>
  void write(std::string_view name, std::string_view suffix, std::string_view labels, Value value) {
    text_ += name;
    text_ += suffix;
    if (!labels.empty()) {
      text_ += '{';
      text_ += labels;
      text_ += '}';
    }
    fmt::format_to(out(), " {}\n", value);
  }

  std::string text_;
  std::string_view name_;
};

// Durations for histograms of the head.
struct SpanHistogram {
  UseHistogram counts{};
  std::uint64_t total_us = 0;

  void add(Duration span) {
    ++counts[use_bucket_of(span)];
    if (span > Duration(0))
      total_us += static_cast<std::uint64_t>(span / std::chrono::microseconds(1));
  }
};

}  // namespace mobula::internal::head
