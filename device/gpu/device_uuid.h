// UUID of a device or of a MIG slice, valid in all processes; ordinals are valid within one process
// only.
// Thread: any (pure).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mobula::internal {

using DeviceUuid = std::array<std::byte, 16>;

// Text as tools print it: "GPU-6ba7b810-9dad-11d1-80b4-00c04fd430c8".
std::string to_string(const DeviceUuid& uuid);
// Parses "GPU-…" or "MIG-…".
std::optional<DeviceUuid> device_uuid_from(std::string_view text);

}  // namespace mobula::internal
