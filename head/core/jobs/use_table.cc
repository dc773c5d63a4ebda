#include "head/core/jobs/use_table.h"

#include <algorithm>

namespace mobula::internal::head {
namespace {

// Growth of a total. A smaller value than before is forged.
std::uint64_t growth(std::uint64_t before, std::uint64_t now) {
  return now > before ? now - before : 0;
}

void add_growth(UseHistogram& sum, const std::vector<UseBucket>& before,
                const std::vector<UseBucket>& now) {
  UseHistogram known{};
  for (const auto& each : before) known[each.bucket] = each.count;
  for (const auto& each : now) sum[each.bucket] += growth(known[each.bucket], each.count);
}

void add_growth(UseTotals& sum, const ClassUseRow& before, const ClassUseRow& now) {
  sum.submitted += growth(before.submitted, now.submitted);
  sum.finished += growth(before.finished, now.finished);
  sum.failed += growth(before.failed, now.failed);
  sum.cancelled += growth(before.cancelled, now.cancelled);
  sum.wait_us += growth(before.wait_us, now.wait_us);
  sum.run_us += growth(before.run_us, now.run_us);
  add_growth(sum.waits, before.waits, now.waits);
  add_growth(sum.runs, before.runs, now.runs);
}

void add(UseTotals& sum, const UseTotals& more) {
  sum.submitted += more.submitted;
  sum.finished += more.finished;
  sum.failed += more.failed;
  sum.cancelled += more.cancelled;
  sum.wait_us += more.wait_us;
  sum.run_us += more.run_us;
  for (std::size_t i = 0; i < use_buckets; ++i) {
    sum.waits[i] += more.waits[i];
    sum.runs[i] += more.runs[i];
  }
}

// Limit of a value of a report, far beyond what an owner can reach. Larger ones are forged.
constexpr std::uint64_t most = std::uint64_t{1} << 56;

bool is_plausible(const ClassUseRow& row) {
  const auto fits = [](const UseBucket& each) {
    return each.bucket < use_buckets && each.count <= most;
  };
  return std::max({row.submitted, row.finished, row.failed, row.cancelled, row.wait_us,
                   row.run_us}) <= most &&
         row.waits.size() <= use_buckets && row.runs.size() <= use_buckets &&
         std::ranges::all_of(row.waits, fits) && std::ranges::all_of(row.runs, fits);
}

}  // namespace

void UseTable::update(ProcessId owner, const ClassUse& use, Time now) {
  for (const auto& row : use.rows) {
    if (!is_plausible(row)) {
      ++rejected_rows_;
      continue;
    }
    auto& rows = live_[owner];
    const RowKey key{row.demand_class, label_value(row.name)};
    const auto at = rows.find(key);
    if (at == rows.end() && rows_ >= max_rows) {
      ++rejected_rows_;
      continue;
    }
    ClassUseRow limited = row;
    limited.name.clear();
    UseTotals& sums = totals_of(key.second, now);
    if (at == rows.end()) {
      add_growth(sums, {}, limited);
      rows.emplace(key, std::move(limited));
      ++rows_;
    } else {
      add_growth(sums, at->second, limited);
      at->second = std::move(limited);
    }
  }
}

void UseTable::ended(ProcessId owner) {
  const auto at = live_.find(owner);
  if (at == live_.end()) return;
  rows_ -= at->second.size();
  live_.erase(at);
}

UseTotals& UseTable::totals_of(const std::string& name, Time now) {
  if (name.empty()) return other_;
  const auto known = names_.find(name);
  if (known != names_.end()) {
    known->second.used = now;
    return known->second.totals;
  }
  if (names_.size() >= max_names) {
    const auto oldest =
        std::ranges::min_element(names_, {}, [](const auto& each) { return each.second.used; });
    if (now - oldest->second.used < idle_name) return other_;
    add(other_, oldest->second.totals);
    names_.erase(oldest);
  }
  Name& made = names_[name];
  made.used = now;
  return made.totals;
}

std::map<std::string, UseTotals> UseTable::totals() const {
  std::map<std::string, UseTotals> all;
  for (const auto& [name, row] : names_) all.emplace(name, row.totals);
  return all;
}

std::map<ClassId, Duration> UseTable::mean_runs() const {
  struct Sum {
    std::uint64_t us = 0;
    std::uint64_t runs = 0;
  };
  std::map<ClassId, Sum> sums;
  for (const auto& [owner, rows] : live_) {
    for (const auto& [key, row] : rows) {
      if (key.first.empty()) continue;
      Sum& sum = sums[key.first];
      sum.us += row.run_us;
      for (const auto& each : row.runs) sum.runs += each.count;
    }
  }
  std::map<ClassId, Duration> means;
  for (const auto& [id, sum] : sums) {
    constexpr std::uint64_t year_us = 365ull * 24 * 3600 * 1'000'000;
    if (sum.runs > 0) means[id] = std::chrono::microseconds(std::min(sum.us / sum.runs, year_us));
  }
  return means;
}

}  // namespace mobula::internal::head
