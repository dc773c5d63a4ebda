// The location of memory: the host, or a CUDA device that this process sees.
// Thread: owner (plain value).
#pragma once

#include <cstdint>

namespace mobula {

// A device. `index` counts the devices of this process; for the host it is 0.
struct Device {
  // The kind of device.
  enum Kind : std::uint8_t {
    cpu,  // host memory
    cuda  // CUDA device
  };
  Kind kind = cpu;  // kind of the device
  int index = 0;    // index among the devices of this process

  // Compares kind and index.
  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace mobula
