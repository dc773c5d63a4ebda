// Communicator of the simulated NCCL, and its data exchange: unix sockets in the machine's
// directory, one per direction of each pair, created with the first bytes.
// Thread: threads of the library, and callers of its functions.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/gpu/nccl_abi.h"
#include "simulated_gpu/cuda_state.h"

namespace simulated_gpu {

namespace nccl = mobula::internal::nccl_abi;

struct RankName {
  int rank = 0;
  int ranks = 0;
  int version = 0;
  int location = 0;        // location of the device in the machine
  std::uint64_t host = 0;  // host identity
  int several_ranks = 0;   // NCCL_MULTI_RANK_GPU_ENABLE
  char listens[64] = {};   // name in the directory
};

struct Operation {
  bool sends = false;
  int peer = 0;
  std::size_t size = 0;
  Seen memory;
  std::uint64_t announced_as = 0;  // operation of a collective; equal at both ends
};

enum class Collective : int { none, broadcast, all_reduce, reduce, all_gather, reduce_scatter };

// A collective call: sends and receives over copies in host memory, and the work after all data has
// arrived.
struct Whole {
  Collective kind = Collective::none;
  std::size_t count = 0;  // elements, as in the call
  int type = 0;
  int reduction = 0;
  int root = 0;
  Seen from, to;
  std::vector<std::vector<std::byte>> of_ranks;  // input of each rank that this rank reads
};

struct Communicator {
  RankName self;
  int device = 0;
  bool blocking = true;
  std::atomic<nccl::Status> state{nccl::in_progress};
  std::atomic<bool> stopped{false};  // stops work in progress
  bool revoked = false;
  bool finalized = false;
  int taken = -1;  // descriptor for the accounted device memory
  int listener = -1;
  std::vector<RankName> all;
  std::vector<int> to, from;    // sockets by rank; used by the thread in progress
  std::atomic<int> kernels{0};  // issued and not complete
  std::thread thread;           // thread in progress

  ~Communicator();
};

// ---- nccl_wire.cc -------------------------------------------------------------------------------

// Rendezvous of the ranks: replies when all have arrived.
void serve_root(int listener);
int listen_at(const std::string& name);
// Names of all ranks, or the reason of the root against them. Ends early when `of` is stopped.
nccl::Status meet(Communicator& of, const std::string& root);
// Opens the sockets that these operations need. Returns false when stopped.
bool connect_peers(Communicator& of, const std::vector<Operation>& operations);
// Moves all data; returns false when stopped, or if the peer is gone.
bool exchange(Communicator& of, const std::vector<Operation>& operations);

// ---- nccl_collectives.cc ------------------------------------------------------------------------

// Bytes per element; 0 for an unknown type.
std::size_t size_of_type(int type);
// Bytes that this rank reads and writes.
std::size_t bytes_from(const Whole& whole, const Communicator& of);
std::size_t bytes_to(const Whole& whole, const Communicator& of);
// `whole` must not move until `finish`.
std::vector<Operation> begin(Whole& whole, const Communicator& of);
void finish(Whole& whole, const Communicator& of);

}  // namespace simulated_gpu
