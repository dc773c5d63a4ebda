// Paths by which the bytes of a tensor move from its holder to a receiver.
// Thread: owner (plain values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/fields.h"

namespace mobula::internal {

enum class DirectPath : std::uint8_t {
  inproc = 1,  // the same process
  shm = 2,     // shared memory of one machine
  tcp = 3,     // the runtime's own TCP connections
  gloo = 4,
  ucx = 5,
  cuda_ipc = 6,  // device memory of one machine
  nccl = 7,
  store = 8,   // the holder writes the bytes to the object store of its node
  staged = 9,  // device memory through host memory, then shm or tcp
  nixl = 10,
};
inline constexpr std::size_t direct_paths = 10;
std::string_view to_string(DirectPath path);

// Rights of the producer on tensor elements that other processes refer to: read only; any use,
// because the others have a copy; writes that the others may see.
enum class ElementSharing : std::uint8_t { frozen = 0, snapshot = 1, alias = 2 };

// How the elements of tensors in a value move. Without `direct`, they are part of the value, in the
// object store if it is large.
struct TransportPreference {
  bool direct = false;
  std::optional<DirectPath> named{};  // empty: the best available path
  bool allow_fallback = false;        // permits other paths if the named one fails
  ElementSharing sharing = ElementSharing::frozen;
  MOBULA_FIELDS(direct, named, allow_fallback, sharing);
  friend bool operator==(const TransportPreference&, const TransportPreference&) = default;
};

// Paths of a transport plugin. Their bytes are not encrypted.
constexpr bool is_of_plugin(DirectPath path) {
  return path == DirectPath::gloo || path == DirectPath::ucx || path == DirectPath::nixl;
}

// Both processes act at the same time, in an order that all agree on.
constexpr bool is_two_sided(DirectPath path) { return path == DirectPath::nccl; }

}  // namespace mobula::internal
