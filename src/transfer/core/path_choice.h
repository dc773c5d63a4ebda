// By which paths bytes could go from one process to another, best first, and for each other path the first
// rule that refuses it. A function of what both processes have said of themselves; it asks nobody.
//
//   inproc    the same process
//   cuda_ipc  device to device on one machine: the same device, or one that reaches it
//   shm       host to host on one machine
//   nccl      device to device elsewhere, over a trusted fabric, by equal versions
//   ucx       host to host between machines with RDMA, over a trusted fabric
//   tcp       host to host between machines; sealed unless the fabric is trusted
//   staged    whatever has a device at one end at least
//   store     whatever is left
//
// gloo and nixl are taken by name alone: tcp is as fast and breaks less. A way of host memory that is named brings device
// memory, too, by way of the host's. What is named is taken alone, or first where
// others may stand in for it. Bytes of NCCL, gloo, UCX, and NIXL are not sealed, so between machines they need
// a fabric that is declared trusted.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "model/direct_path.h"

namespace mobula::internal::transfer {

// What one process says of one path.
struct PathSupport {
  std::string why_not;  // empty: it has it
  std::string version;  // that has to be equal on both sides; empty: any
};

// What a process says of itself to those it may exchange tensors with.
struct ProcessReach {
  ProcessId process;
  std::string machine;  // what processes with common memory have in common: boot and namespaces
  std::map<DirectPath, PathSupport> paths;  // what is not named it does not have
  bool rdma = false;                        // its UCX has a way that needs no help of the other side
  bool ucx_devices = false;                 // and reads device memory
  bool several_ranks_per_device = false;    // its NCCL lets two processes share a device
};

// Where bytes lie, or are to lie.
struct BytePlace {
  std::string device;      // UUID; empty: host memory
  bool in_arena = true;    // host: in memory that others can map
  bool exportable = true;  // device: memory whose handle others can open
  bool is_device() const { return !device.empty(); }
};

struct PathQuestion {
  ProcessReach from, to;
  BytePlace source, destination;
  bool trusted = false;        // the fabric between the two machines
  bool peer_access = false;    // between the two devices, as the node's agent has seen
  bool may_alias = true;       // the same process may have the same memory
  std::optional<DirectPath> named{};
  bool allow_fallback = false;
};

struct PathRefusal {
  DirectPath path = DirectPath::shm;
  std::string why;
  friend bool operator==(const PathRefusal&, const PathRefusal&) = default;
};

struct PathChoice {
  std::vector<DirectPath> paths;  // in the order in which to try them
  std::vector<PathRefusal> refusals;
  std::size_t better = 0;  // the first so many are of ways that would have been taken before any of `paths`
  bool sealed = false;            // what the first of them sends cannot be read on its way
};

// Whether it is tried before the other one where none is named.
bool is_better(DirectPath path, DirectPath than);

PathChoice choose_paths(const PathQuestion& question);

}  // namespace mobula::internal::transfer
