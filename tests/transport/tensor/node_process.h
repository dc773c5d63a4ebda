// Main function of the process of a Node.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "transport/tensor/node.h"

namespace mobula::internal::direct_test {

enum class NodeCommand : std::uint8_t {
  open = 1,
  close,
  offer,
  release,
  pull,
  seen,
  inspect,
  drop,
  cancel,
  cancel_after,
  map,
  still_offered,
  reach,
  peer_down,
  shutdown,
  keep_busy,
  figures,
  serve,
  end,
};

// Runs until the peer closes the socket.
void run_node(Fd socket, ProcessId process, const NodeOptions& options);

// A unique pattern for `seed`.
void fill_pattern(std::span<std::byte> to, std::uint64_t seed);
bool is_pattern(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace mobula::internal::direct_test
