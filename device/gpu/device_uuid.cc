#include "device/gpu/device_uuid.h"

#include <charconv>

#include <fmt/format.h>

namespace mobula::internal {

std::string to_string(const DeviceUuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", std::to_integer<unsigned>(uuid[i]));
  }
  return text;
}

std::optional<DeviceUuid> device_uuid_from(std::string_view text) {
  if (!text.starts_with("GPU-") && !text.starts_with("MIG-")) return std::nullopt;
  text.remove_prefix(4);
  DeviceUuid uuid{};
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) {
      if (text.empty() || text.front() != '-') return std::nullopt;
      text.remove_prefix(1);
    }
    unsigned value = 0;
    if (text.size() < 2) return std::nullopt;
    const auto read = std::from_chars(text.data(), text.data() + 2, value, 16);
    if (read.ec != std::errc() || read.ptr != text.data() + 2) return std::nullopt;
    uuid[i] = static_cast<std::byte>(value);
    text.remove_prefix(2);
  }
  if (!text.empty()) return std::nullopt;
  return uuid;
}

}  // namespace mobula::internal
