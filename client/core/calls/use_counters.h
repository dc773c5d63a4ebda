// Counts the calls of this process by class and function name, and decides when the head gets the
// changed totals. A call costs a lookup by the address of its form and a few increments; only the
// first call of a name allocates.
// Thread: owner (one ClientCore).
// Not: constructors of actors. Calls of names beyond `max_rows` share one row.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/model/task.h"
#include "base/time.h"
#include "protocol/messages/facts/class_use.h"

namespace mobula::internal::client {

class UseCounters {
 public:
  static constexpr std::size_t max_rows = 256;
  static constexpr Duration report_interval = 10s;

  enum class How : std::uint8_t { finished, failed, cancelled };
  struct End {
    How how = How::finished;
    std::optional<Duration> waited{};  // empty: the call was never sent
    std::optional<Duration> ran{};     // empty: no reply
  };

  void submitted(const CopyOnWrite<CallForm>& form, ClassId demand_class, Time now);
  void ended(const CopyOnWrite<CallForm>& form, ClassId demand_class, const End& end, Time now);

  // Whether the head accepts reports. Counting continues if not.
  void set_accepted(bool accepted, Time now);
  // The head may have lost all reports: the next one has all rows and is due now.
  void restate(Time now);
  // The rows that changed since the last report, if it is due.
  std::optional<ClassUse> take_due(Time now);
  // The same rows for a process that ends. Empty if the head accepts no reports.
  ClassUse unreported() const;
  std::optional<Time> next_deadline() const { return accepted_ ? due_ : std::nullopt; }

 private:
  // Durations of the calls of one row.
  struct Spans {
    std::uint64_t total_us = 0;
    std::uint64_t rest_ns = 0;  // part of the total below 1 µs
    UseHistogram histogram{};

    void add(Duration span);
  };
  struct Row {
    ClassId demand_class;
    std::string name;
    std::uint64_t submitted = 0;
    std::uint64_t finished = 0;
    std::uint64_t failed = 0;
    std::uint64_t cancelled = 0;
    Spans waits;
    Spans runs;
    bool changed = false;
  };
  // The latest form with this hash. The copy keeps its address from being reused.
  struct Known {
    CopyOnWrite<CallForm> form;
    ClassId demand_class;
    std::uint32_t row = 0;
  };
  struct Less {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return std::pair(a.first, std::string_view(a.second)) <
             std::pair(b.first, std::string_view(b.second));
    }
  };
  static constexpr std::size_t known_forms = 64;

  Row& row_of(const CopyOnWrite<CallForm>& form, ClassId demand_class);
  std::uint32_t find_row(const CallForm& form, ClassId demand_class);
  void change(Row& row, Time now);
  static ClassUseRow row_as_message(const Row& row);

  std::array<Known, known_forms> known_{};
  std::vector<Row> rows_;
  std::map<std::pair<ClassId, std::string>, std::uint32_t, Less> by_name_;
  bool accepted_ = false;
  std::optional<Time> due_;  // set while a row is changed
};

}  // namespace mobula::internal::client
