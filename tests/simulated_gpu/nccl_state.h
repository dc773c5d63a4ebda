// A communicator of the simulated NCCL, and what passes between its ranks: unix sockets in the machine's folder,
// one for each direction of each pair, made when the first bytes go that way. Used by the threads that the
// library itself starts, and by the callers of its functions.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpu/nccl_abi.h"
#include "simulated_gpu/cuda_state.h"

namespace simulated_gpu {

namespace nccl = mobula::internal::nccl_abi;

struct RankName {
  int rank = 0;
  int ranks = 0;
  int version = 0;
  int place = 0;           // which device of which machine
  std::uint64_t host = 0;  // what it takes for its host
  int several_ranks = 0;   // NCCL_MULTI_RANK_GPU_ENABLE
  char listens[64] = {};   // in the folder
};

struct Operation {
  bool sends = false;
  int peer = 0;
  std::size_t size = 0;
  Seen memory;
  std::uint64_t announced_as = 0;  // of collectives: which one; both ends say the same
};

enum class Collective : int { none, broadcast, all_reduce, reduce, all_gather, reduce_scatter };

// What all ranks call: sends and receives, of copies in the host's memory, and what is done when all has come.
struct Whole {
  Collective kind = Collective::none;
  std::size_t count = 0;  // elements, as the call has it
  int type = 0;
  int reduction = 0;
  int root = 0;
  Seen from, to;
  std::vector<std::vector<std::byte>> of_ranks;  // what each has given, where this rank reads it
};

struct Communicator {
  RankName self;
  int device = 0;
  bool blocking = true;
  std::atomic<nccl::Status> state{nccl::in_progress};
  std::atomic<bool> stopped{false};  // what is under way ends
  bool revoked = false;
  bool finalized = false;
  int taken = -1;  // of the device's memory
  int listener = -1;
  std::vector<RankName> all;
  std::vector<int> to, from;    // sockets by rank; of the thread in progress
  std::atomic<int> kernels{0};  // issued and not over
  std::thread thread;           // the one in progress

  ~Communicator();
};

// ---- nccl_wire.cc --------------------------------------------------------------------------------

// The place where ranks meet: answers them when all have come.
void serve_root(int listener);
int listen_at(const std::string& name);
// All ranks' names, or why there are none: what the root says. Ends early when `of` is stopped.
nccl::Status meet(Communicator& of, const std::string& root);
// The sockets that these operations need. False when stopped.
bool connect_peers(Communicator& of, const std::vector<Operation>& operations);
// Moves everything; false when it was stopped, or the other end is gone.
bool exchange(Communicator& of, const std::vector<Operation>& operations);

// ---- nccl_collectives.cc ---------------------------------------------------------------------------

// Bytes of an element; 0 for a type that there is not.
std::size_t size_of_type(int type);
// Bytes that this rank reads and writes.
std::size_t bytes_from(const Whole& whole, const Communicator& of);
std::size_t bytes_to(const Whole& whole, const Communicator& of);
// `whole` stays where it is until finish().
std::vector<Operation> begin(Whole& whole, const Communicator& of);
void finish(Whole& whole, const Communicator& of);

}  // namespace simulated_gpu
