#include "head/core/nodes/label_values.h"

#include <algorithm>

#include "base/text/utf8.h"

namespace mobula::internal::head {

std::string label_value(std::string_view text) {
  auto value = valid_utf8(text.substr(0, LabelValues::max_bytes + 4));
  if (value == LabelValues::other) return {};
  std::size_t size = std::min(value.size(), LabelValues::max_bytes);
  while (size < value.size() && size > 0 &&
         (static_cast<unsigned char>(value[size]) & 0xc0) == 0x80)
    --size;
  value.resize(size);
  return value;
}

void LabelValues::note(std::string_view text, Time now) {
  const auto known = used_.find(label_value(text));
  if (known != used_.end()) known->second = now;
}

std::string LabelValues::value_of(std::string_view text, Time now) {
  auto value = label_value(text);
  if (value.empty()) return other;
  const auto known = used_.find(value);
  if (known != used_.end()) {
    known->second = now;
    return value;
  }
  if (used_.size() >= max_values) {
    // Most texts beyond the limit find no idle value, and must not search for one.
    if (now - idle_since_ < idle_value) return other;
    const auto oldest =
        std::ranges::min_element(used_, {}, [](const auto& each) { return each.second; });
    idle_since_ = oldest->second;
    if (now - idle_since_ < idle_value) return other;
    used_.erase(oldest);
  }
  used_.emplace(value, now);
  return value;
}

}  // namespace mobula::internal::head
