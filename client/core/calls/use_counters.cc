#include "client/core/calls/use_counters.h"

#include <algorithm>
#include <cstdint>

namespace mobula::internal::client {
namespace {

std::vector<UseBucket> buckets_of(const UseHistogram& histogram) {
  std::vector<UseBucket> buckets;
  for (std::size_t i = 0; i < histogram.size(); ++i) {
    if (histogram[i] > 0) buckets.push_back({static_cast<std::uint8_t>(i), histogram[i]});
  }
  return buckets;
}

}  // namespace

void UseCounters::submitted(const CopyOnWrite<CallForm>& form, ClassId demand_class, Time now) {
  Row& row = row_of(form, demand_class);
  ++row.submitted;
  change(row, now);
}

void UseCounters::ended(const CopyOnWrite<CallForm>& form, ClassId demand_class, const End& end,
                        Time now) {
  Row& row = row_of(form, demand_class);
  switch (end.how) {
    case How::finished: ++row.finished; break;
    case How::failed: ++row.failed; break;
    case How::cancelled: ++row.cancelled; break;
  }
  if (end.waited) row.waits.add(*end.waited);
  if (end.ran) row.runs.add(*end.ran);
  change(row, now);
}

void UseCounters::Spans::add(Duration span) {
  rest_ns += static_cast<std::uint64_t>(std::max(span, Duration(0)).count());
  total_us += rest_ns / 1000;
  rest_ns %= 1000;
  ++histogram[use_bucket_of(span)];
}

void UseCounters::change(Row& row, Time now) {
  row.changed = true;
  if (!due_) due_ = now + report_interval;
}

UseCounters::Row& UseCounters::row_of(const CopyOnWrite<CallForm>& form, ClassId demand_class) {
  const auto address = reinterpret_cast<std::uintptr_t>(&*form);
  Known& known = known_[((address >> 6) ^ demand_class.bits().low) % known_forms];
  if (!known.form.is_same(form) || known.demand_class != demand_class || rows_.empty()) {
    known = {form, demand_class, find_row(*form, demand_class)};
  }
  return rows_[known.row];
}

std::uint32_t UseCounters::find_row(const CallForm& form, ClassId demand_class) {
  const auto at = by_name_.find(std::pair(demand_class, std::string_view(form.name)));
  if (at != by_name_.end()) return at->second;
  if (rows_.empty()) rows_.emplace_back();  // for names beyond the limit
  if (rows_.size() >= max_rows) return 0;
  const auto number = static_cast<std::uint32_t>(rows_.size());
  Row& row = rows_.emplace_back();
  row.demand_class = demand_class;
  row.name = form.name;
  by_name_.emplace(std::pair(demand_class, form.name), number);
  return number;
}

void UseCounters::set_accepted(bool accepted, Time now) {
  if (accepted && !accepted_ && due_) due_ = std::max(*due_, now);
  accepted_ = accepted;
}

void UseCounters::restate(Time now) {
  for (Row& row : rows_) row.changed = row.submitted > 0;
  if (!rows_.empty()) due_ = now;
}

std::optional<ClassUse> UseCounters::take_due(Time now) {
  if (!accepted_ || !due_ || *due_ > now) return std::nullopt;
  due_.reset();
  ClassUse use = unreported();
  for (Row& row : rows_) row.changed = false;
  return use;
}

ClassUse UseCounters::unreported() const {
  ClassUse use;
  if (!accepted_) return use;
  for (const Row& row : rows_) {
    if (row.changed) use.rows.push_back(row_as_message(row));
  }
  return use;
}

ClassUseRow UseCounters::row_as_message(const Row& row) {
  ClassUseRow message;
  message.demand_class = row.demand_class;
  message.name = row.name;
  message.submitted = row.submitted;
  message.finished = row.finished;
  message.failed = row.failed;
  message.cancelled = row.cancelled;
  message.wait_us = row.waits.total_us;
  message.run_us = row.runs.total_us;
  message.waits = buckets_of(row.waits.histogram);
  message.runs = buckets_of(row.runs.histogram);
  return message;
}

}  // namespace mobula::internal::client
