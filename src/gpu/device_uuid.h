// What names a device everywhere, a slice of one too; ordinals mean something within one process only.
// Value functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mobula::internal {

using DeviceUuid = std::array<std::byte, 16>;

// As tools write it, "GPU-6ba7b810-9dad-11d1-80b4-00c04fd430c8".
std::string to_string(const DeviceUuid& uuid);
// Of "GPU-…" or "MIG-…".
std::optional<DeviceUuid> device_uuid_from(std::string_view text);

}  // namespace mobula::internal
