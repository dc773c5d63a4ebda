// The ways by which the bytes of a tensor go from the process that has them to one that wants them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/fields.h"

namespace mobula::internal {

enum class DirectPath : std::uint8_t {
  inproc = 1,    // the same process
  shm = 2,       // memory of one machine
  tcp = 3,       // our own connections
  gloo = 4,
  ucx = 5,
  cuda_ipc = 6,  // device memory of one machine
  nccl = 7,
  store = 8,     // the holder writes them into its node's object store
  staged = 9,    // device memory by way of the host's, then shm or tcp
  nixl = 10,
};
inline constexpr std::size_t direct_paths = 10;
std::string_view to_string(DirectPath path);

// What their maker may do with elements that others refer to: read them; what it likes, since others have a copy;
// write to them, which others may see.
enum class ElementSharing : std::uint8_t { frozen = 0, snapshot = 1, alias = 2 };

// How the elements of tensors in a value are to travel. Not direct: with the value, through the object
// store where it is large.
struct DirectWish {
  bool direct = false;
  std::optional<DirectPath> named{};  // else the best there is
  bool allow_fallback = false;        // of what is named, to the others
  ElementSharing sharing = ElementSharing::frozen;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("direct", &DirectWish::direct), field("named", &DirectWish::named),
                 field("allow_fallback", &DirectWish::allow_fallback), field("sharing", &DirectWish::sharing));
  }
  friend bool operator==(const DirectWish&, const DirectWish&) = default;
};

// Paths that a transport plugin brings. Their bytes are not sealed.
constexpr bool is_of_plugin(DirectPath path) {
  return path == DirectPath::gloo || path == DirectPath::ucx || path == DirectPath::nixl;
}

// Both processes act at the same time, in an order that all agree on.
constexpr bool is_two_sided(DirectPath path) { return path == DirectPath::nccl; }

}  // namespace mobula::internal
