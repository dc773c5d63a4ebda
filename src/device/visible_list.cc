#include "device/visible_list.h"

#include <charconv>

namespace mobula::internal {
namespace {

// No machine has more; a longer range is a mistake in the variable.
constexpr unsigned most_cores = 4096;

std::optional<unsigned> number_in(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "2-4" as 2, 3, 4; anything else as it is.
void append_range(const std::string& entry, std::vector<std::string>& cores) {
  const auto dash = entry.find('-');
  if (dash != std::string::npos) {
    const auto first = number_in(std::string_view(entry).substr(0, dash));
    const auto last = number_in(std::string_view(entry).substr(dash + 1));
    if (first && last && *first <= *last && *last < most_cores) {
      for (unsigned core = *first; core <= *last; ++core) cores.push_back(std::to_string(core));
      return;
    }
  }
  cores.push_back(entry);
}

}  // namespace

VisibleList visible_devices(const char* value) {
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> entries;
  std::string_view rest(value);
  if (rest == "NoDevFiles") return entries;
  for (;;) {
    const auto comma = rest.find(',');
    const std::string_view entry = rest.substr(0, comma);
    if (entry.empty() || entry == "-1") return entries;
    entries.emplace_back(entry);
    if (comma == std::string_view::npos) return entries;
    rest.remove_prefix(comma + 1);
  }
}

VisibleList visible_neuron_cores(const char* value) {
  const VisibleList entries = visible_devices(value);
  if (!entries) return std::nullopt;
  std::vector<std::string> cores;
  for (const std::string& entry : *entries) append_range(entry, cores);
  return cores;
}

std::string joined(const std::vector<std::string>& ids) {
  std::string text;
  for (const std::string& id : ids) {
    if (!text.empty()) text += ',';
    text += id;
  }
  return text;
}

}  // namespace mobula::internal
