// Chooses the paths between two processes, best first, with the first rule that rejects each other
// path. The result depends only on the capabilities that both processes have sent.
// Thread: any (pure).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/model/direct_path.h"

namespace mobula::internal::transfer {

// Support for one path in one process.
struct PathSupport {
  std::string why_not;  // empty: supported
  std::string version;  // must be equal on both sides; empty: any
};

// Capabilities that a process sends to its peers.
struct ProcessReach {
  ProcessId process;
  std::string machine;  // id of the boot and namespaces, equal for processes that can share memory
  std::map<DirectPath, PathSupport> paths;  // a path that is not listed is not supported
  bool rdma = false;                        // UCX has a transport that needs no action of the peer
  bool ucx_devices = false;                 // UCX reads device memory
  bool nccl_shares_gpu = false;             // NCCL accepts two processes on one device
};

// Location of bytes, present or wanted.
struct ByteLocation {
  std::string device;      // UUID; empty: host memory
  bool exportable = true;  // device: other processes can open a handle of the memory
  bool is_device() const { return !device.empty(); }
};

struct PathQuestion {
  ProcessReach from, to;
  ByteLocation source, destination;
  bool trusted = false;      // the fabric between the two machines
  bool peer_access = false;  // between the two devices, as the agent reported
  bool may_alias = true;     // within one process, the result may share the memory
  std::optional<DirectPath> named{};
  bool allow_fallback = false;
};

struct PathRefusal {
  DirectPath path = DirectPath::shm;
  std::string why;
  friend bool operator==(const PathRefusal&, const PathRefusal&) = default;
};

struct PathChoice {
  std::vector<DirectPath> paths;  // order of attempts
  std::vector<PathRefusal> refusals;
  std::size_t better = 0;  // leading `refusals` that rank above all of `paths`
  bool sealed = false;     // the first path encrypts
};

// Returns true if `path` is tried before `than` when no path is named.
bool is_better(DirectPath path, DirectPath than);

// Rules, in order of preference:
//
//   inproc    is used within one process.
//   cuda_ipc  connects devices of one machine: the same device, or devices with peer access.
//   shm       connects host memory within one machine.
//   nccl      connects other devices, on a trusted fabric, with equal versions. It connects one
//             device only if it is named, and if the NCCL of both processes accepts that.
//   ucx       connects host memory between machines with RDMA, on a trusted fabric.
//   tcp       connects host memory between machines. It encrypts unless the fabric is trusted.
//   staged    carries device memory of one or both ends through the host.
//   store     serves all other cases.
//
// gloo and nixl are used only if named, because tcp is as fast and fails less. A named path is the
// only candidate, or the first one if fallback is allowed. A named host-memory path carries device
// memory through the host. NCCL, gloo, UCX, and NIXL do not encrypt. Between machines they need a
// trusted fabric.
PathChoice choose_paths(const PathQuestion& question);

}  // namespace mobula::internal::transfer
