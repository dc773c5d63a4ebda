// UUIDs of the simulated GPUs. The machine is the directory, so two directories have no UUID in
// common.
// Thread: any (pure).
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "simulated_gpu/settings.h"

namespace simulated_gpu {

inline constexpr const char* device_name = "SIMULATED GPU";

// With slice -1, the UUID of a whole device.
inline std::array<unsigned char, 16> uuid_of(int machine_index, int slice) {
  std::array<unsigned char, 16> uuid{};
  std::memcpy(uuid.data(), "SIMULATED", 9);
  std::uint32_t machine = 2'166'136'261U;
  for (const char each : settings().directory)
    machine = (machine ^ static_cast<unsigned char>(each)) * 16'777'619U;
  std::memcpy(uuid.data() + 9, &machine, 4);
  uuid[14] = static_cast<unsigned char>(machine_index);
  uuid[15] = static_cast<unsigned char>(slice + 1);
  return uuid;
}

inline std::string uuid_text(int machine_index, int slice) {
  std::string text = slice < 0 ? "GPU" : "MIG";
  const auto uuid = uuid_of(machine_index, slice);
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    char two[4];
    std::snprintf(two, sizeof two, "%02x", uuid[i]);
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += two;
  }
  return text;
}

}  // namespace simulated_gpu
