// Where memory is: the host, or one of the CUDA devices that this process sees. Value.
#pragma once

#include <cstdint>

namespace mobula {

// `index` counts in this process; the host's is always 0.
struct Device {
  enum Kind : std::uint8_t { cpu, cuda };
  Kind kind = cpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace mobula
