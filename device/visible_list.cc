#include "device/visible_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "device/mask.h"

namespace mobula::internal {
namespace {

// No machine has more devices; a longer range is an error in the variable.
constexpr unsigned most_ids = 4096;

std::optional<unsigned> number_in(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string> entries_of(std::string_view rest) {
  std::vector<std::string> entries;
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

// Expands "2-4" to 2, 3, 4; other text stays unchanged.
void append_range(const std::string& entry, std::vector<std::string>& ids) {
  const auto dash = entry.find('-');
  if (dash != std::string::npos) {
    const auto first = number_in(std::string_view(entry).substr(0, dash));
    const auto last = number_in(std::string_view(entry).substr(dash + 1));
    if (first && last && *first <= *last && *last < most_ids) {
      for (unsigned id = *first; id <= *last; ++id) ids.push_back(std::to_string(id));
      return;
    }
  }
  ids.push_back(entry);
}

// Rejects duplicates, because a device that is named twice could be allocated twice at once.
Result<VisibleList> each_once(std::string_view variable, std::string_view value,
                              std::vector<std::string> ids) {
  std::set<std::string> seen;
  for (const std::string& id : ids) {
    if (seen.insert(id).second) continue;
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}={}: {} is named twice", variable, value, id));
  }
  return VisibleList(std::move(ids));
}

// Parses "level_zero:0,1" as a list; "level_zero:gpu" and similar values restrict nothing.
Result<VisibleList> selected(const VendorRow& vendor, std::string_view value) {
  if (value.empty() || value == "NoDevFiles" || value == vendor.nothing) {
    return VisibleList(std::vector<std::string>());
  }
  const std::string prefix(vendor.list_prefix);
  for (const std::string_view all : {"*", "gpu"}) {
    if (value == prefix + std::string(all) || value == "*:" + std::string(all)) {
      return VisibleList();
    }
  }
  if (value.starts_with(prefix)) {
    auto entries = entries_of(value.substr(prefix.size()));
    const auto is_number = [](const std::string& entry) { return number_in(entry).has_value(); };
    if (std::ranges::all_of(entries, is_number))
      return each_once(vendor.variable, value, std::move(entries));
  }
  return failure(ErrorCode::invalid_argument,
                 fmt::format("{}={}: devices of a node are chosen by a list such as {}0,1 alone",
                             vendor.variable, value, prefix));
}

// Parses the vendor's second mask.
Result<VisibleList> second_ids(const SecondMask& mask, const char* value) {
  if (value == nullptr || (*value == '\0' && !mask.nothing.empty())) return VisibleList();
  if (value == mask.nothing) return VisibleList(std::vector<std::string>());
  auto ids = entries_of(value);
  for (const std::string& id : ids) {
    if (id.find('.') == std::string::npos) continue;
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}={}: {} is part of a device; a node has only whole devices",
                               mask.variable, value, id));
  }
  return each_once(mask.variable, value, std::move(ids));
}

// Entries of `filter` that `list` names by position, up to the first invalid entry.
std::vector<std::string> within(const std::vector<std::string>& filter,
                                const std::vector<std::string>& list) {
  std::vector<std::string> named;
  for (const std::string& entry : list) {
    const auto at = number_in(entry);
    if (!at || *at >= filter.size()) break;
    named.push_back(filter[*at]);
  }
  return named;
}

}  // namespace

Result<VisibleList> visible_ids(const VendorRow& vendor, const char* value) {
  if (value == nullptr) return VisibleList();
  if (!vendor.list_prefix.empty()) return selected(vendor, value);
  std::vector<std::string> ids;
  for (std::string& entry : entries_of(value)) {
    if (!vendor.id_prefix.empty()) {
      // A part of a device ("npu:0:0-3") counts as the device.
      if (entry.starts_with(vendor.id_prefix)) entry.erase(0, vendor.id_prefix.size());
      entry.erase(std::min(entry.find(':'), entry.size()));
      if (std::ranges::find(ids, entry) != ids.end()) continue;  // another part of the device
    }
    if (vendor.ranges) {
      append_range(entry, ids);
    } else {
      ids.push_back(std::move(entry));
    }
  }
  return each_once(vendor.variable, value, std::move(ids));
}

Result<VisibleDevices> visible_devices(const VendorRow& vendor, const Environment& environment,
                                       const DevicePolicy& policy) {
  const auto value_of = [&](std::string_view variable) -> const char* {
    const auto at = environment.find(std::string(variable));
    return at == environment.end() ? nullptr : at->second.c_str();
  };
  VisibleDevices visible{.variable = std::string(vendor.variable)};
  const char* value = value_of(vendor.variable);
  if (vendor.vendor == Vendor::amd) {
    // HIP reads CUDA's variable if its own is not set, unless CUDA's is empty.
    const char* cuda = value_of("CUDA_VISIBLE_DEVICES");
    if (value == nullptr && cuda != nullptr && *cuda != '\0') {
      visible.variable = "CUDA_VISIBLE_DEVICES";
      value = cuda;
    }
  }
  auto list = visible_ids(vendor, value);
  if (!list) return list.error();
  visible.list = std::move(*list);
  if (!vendor.second.renumbers) return visible;
  auto filter = second_ids(vendor.second, value_of(vendor.second.variable));
  if (!filter) return filter.error();
  if (!sets_second_mask(vendor, policy)) {
    visible.filtered = std::move(*filter);
  } else if (*filter) {
    if (!visible.list) visible.variable = vendor.second.variable;
    visible.list = visible.list ? within(**filter, *visible.list) : **filter;
  }
  return visible;
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
