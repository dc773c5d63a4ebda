#include "tensor/exchange/core/turns.h"

#include <algorithm>

namespace mobula::internal::transfer {

bool Turns::request(std::uint32_t device_ordinal, Taker taker) {
  auto& line = lines_[device_ordinal];
  if (std::ranges::find(line, taker) == line.end()) line.push_back(taker);
  return line.front() == taker;
}

std::optional<Turns::Taker> Turns::leave(std::uint32_t device_ordinal, Taker taker) {
  const auto at = lines_.find(device_ordinal);
  if (at == lines_.end()) return std::nullopt;
  auto& line = at->second;
  const bool had = line.front() == taker;
  std::erase(line, taker);
  if (line.empty()) {
    lines_.erase(at);
    return std::nullopt;
  }
  return had ? std::optional(line.front()) : std::nullopt;
}

bool Turns::has(std::uint32_t device_ordinal, Taker taker) const {
  const auto at = lines_.find(device_ordinal);
  return at != lines_.end() && at->second.front() == taker;
}

std::size_t Turns::in_line() const {
  std::size_t count = 0;
  for (const auto& [device_ordinal, line] : lines_) count += line.size();
  return count;
}

}  // namespace mobula::internal::transfer
