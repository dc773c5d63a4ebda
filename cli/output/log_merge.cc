#include "cli/output/log_merge.h"

#include <array>
#include <charconv>
#include <chrono>

namespace mobula::internal::cli {

std::optional<std::int64_t> time_of_line(std::string_view line) {
  constexpr std::string_view shape = "0000-00-00T00:00:00.";
  if (line.size() <= shape.size()) return std::nullopt;
  std::array<int, 6> numbers{};  // year month day hour minute second
  std::size_t number = 0;
  for (std::size_t at = 0; at < shape.size(); ++at) {
    const char c = line[at];
    if (shape[at] != '0') {
      if (c != shape[at]) return std::nullopt;
      ++number;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    numbers[number] = numbers[number] * 10 + (c - '0');
  }
  std::int64_t us = 0;
  std::int64_t unit = 100'000;
  std::size_t at = shape.size();
  for (; at < line.size() && line[at] >= '0' && line[at] <= '9'; ++at, unit /= 10)
    us += unit * (line[at] - '0');
  if (at == shape.size() || at == line.size() || line[at] != 'Z') return std::nullopt;
  const std::chrono::year_month_day day{std::chrono::year(numbers[0]),
                                        std::chrono::month(static_cast<unsigned>(numbers[1])),
                                        std::chrono::day(static_cast<unsigned>(numbers[2]))};
  if (!day.ok()) return std::nullopt;
  const std::int64_t seconds =
      std::chrono::sys_days(day).time_since_epoch().count() * std::int64_t{86'400} +
      numbers[3] * 3600 + numbers[4] * 60 + numbers[5];
  return seconds * 1'000'000 + us;
}

std::size_t LogMerge::add() {
  logs_.emplace_back();
  return logs_.size() - 1;
}

void LogMerge::take(std::size_t log, std::string line) {
  Log& of = logs_[log];
  of.last_us = time_of_line(line).value_or(of.last_us);
  of.lines.push_back({of.last_us, std::move(line)});
}

bool LogMerge::give() {
  for (;;) {
    Log* next = nullptr;
    for (auto& log : logs_) {
      if (log.lines.empty() && !log.silent) return true;
      if (log.lines.empty()) continue;
      if (next == nullptr || log.lines.front().time_us < next->lines.front().time_us) next = &log;
    }
    if (next == nullptr) return true;
    const Line line = std::move(next->lines.front());
    next->lines.pop_front();
    if (!sink_(static_cast<std::size_t>(next - logs_.data()), line.text)) return false;
  }
}

}  // namespace mobula::internal::cli
