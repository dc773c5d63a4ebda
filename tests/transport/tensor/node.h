// A process for the tests of tensor transports. It offers, pulls, and maps by commands from a
// socket, inspects its own memory, and reports the result. Its transport has a separate thread; the
// main thread can be kept busy. The test process has no threads, so that it may fork.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "transport/tensor/blob.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal::direct_test {

// `carried`, gloo, ucx, and nixl are plugins; the tests provide `carried`. cuda_ipc and nccl use
// simulated GPUs.
enum class Way : std::uint8_t {
  inproc = 1,
  shm = 2,
  tcp = 3,
  carried = 4,
  gloo = 5,
  ucx = 6,
  nixl = 7,
  cuda_ipc = 8,
  nccl = 9
};
inline bool is_plugged(Way way) { return way >= Way::carried && way <= Way::nixl; }
const char* name_of(Way way);
// Path of a plugin, which may not exist.
std::string plugin_of(Way way);

struct NodeOptions {
  Way way = Way::shm;
  std::string directory;             // directory of sockets
  std::string machine;               // simulated GPUs; empty: none
  int device = 0;                    // ordinal in the machine
  std::vector<std::string> reached;  // cuda_ipc: devices of the machine whose memory is accessible
  bool to_host = false;              // targets are in host memory, sources on the device
  std::string mask;       // as CUDA_VISIBLE_DEVICES; its first device is used; empty: `device` only
  std::string nccl_host;  // host name for NCCL; empty: the machine
  std::uint64_t patience_ms = 10'000;  // nccl
  bool read_processes = true;          // shm
  std::string address = "127.0.0.1";   // network interface
  bool on_host = false;                // runs on a host of a LossyNetwork
  bool sealed = true;                  // if optional: does not trust the fabric
  std::uint64_t max_arena = 1ull << 40;
  std::uint64_t max_mapped = 1ull << 40;
  std::uint64_t spare_descriptors = 0;  // in addition to those at its start; 0: no limit
};

struct RegionSpec {
  std::uint64_t size = 0;
  std::uint64_t seed = 1;
  std::uint64_t offset = 0;  // from an aligned address, on both sides
  bool in_file = true;       // if the holder has a choice
};

struct Seen {
  bool ok = false;
  ErrorCode code{};
  std::string text;
  bool peer_lost = false;
  std::uint64_t bytes = 0;
  bool right = false;     // every byte matches the pattern
  bool guards = false;    // no byte around the targets was written
  bool poison = false;    // no byte in the targets was written either
  std::uint64_t sum = 0;  // checksum of the targets, now
  bool encrypted = false;
};

struct NodeFigures {
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
  std::uint64_t resident = 0;
  std::uint64_t offers = 0, pulls = 0, channels = 0, mapped = 0, pulled_bytes = 0, arena_used = 0;
  bool lost = false;  // the process must be replaced
  bool busy = false;  // its user code is running
};

// The process as the test sees it. Every call waits for the reply, at most one minute.
class Node {
 public:
  explicit Node(const NodeOptions& options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  pid_t pid() const { return pid_; }
  ProcessId process() const { return process_; }
  const Blob& endpoint() const { return endpoint_; }
  void kill();  // sends SIGKILL and reaps
  void signal(int number);

  Result<void> open(const Node& peer, std::uint64_t epoch, std::uint64_t deadline_ms = 20'000);
  Result<void> open(ProcessId peer, const Blob& endpoint, std::uint64_t epoch,
                    std::uint64_t deadline_ms);
  // Two-sided: both open at the same time. opened() waits for the reply to begin_open().
  void begin_open(const Node& peer, std::uint64_t epoch, std::uint64_t deadline_ms = 20'000);
  Result<void> opened();
  void serve(TransferId transfer, const Node& to, std::uint64_t epoch);
  void close(const Node& peer, std::uint64_t epoch);
  Result<Blob> offer(TransferId transfer, const Node& to, std::uint64_t epoch,
                     const std::vector<RegionSpec>& regions, bool copy = false);
  // Then overwrites the regions and frees them.
  void release(TransferId transfer);
  // Starts a pull; seen() waits for its end.
  void pull(TransferId transfer, const Node& from, std::uint64_t epoch, const Blob& ticket,
            const std::vector<RegionSpec>& regions, std::uint64_t silence_ms = 20'000);
  Seen seen(TransferId transfer);
  // Present state, without waiting.
  Seen inspect(TransferId transfer);
  void drop(TransferId transfer);  // frees the targets
  // Waits for quiet and returns the content of the targets at that time. A later write kills the
  // node, also after cancel_after().
  Seen cancel(TransferId transfer);
  // Cancels after `delay_us` on the clock of the node.
  void cancel_after(TransferId transfer, std::uint64_t delay_us);
  Seen map(TransferId transfer, const Node& from, std::uint64_t epoch, const Blob& ticket,
           const std::vector<RegionSpec>& regions);
  bool still_offered(TransferId transfer);
  Result<void> reach(const Node& peer, MemoryKind source = MemoryKind::host);
  Result<void> reach(ProcessId peer, const Blob& endpoint);
  void peer_down(ProcessId peer);
  bool shutdown();  // true if all transfers were quiet
  // Destroys its transport. Afterwards only figures() may be called.
  void end();
  void keep_busy(std::uint64_t ms);
  NodeFigures figures();

 private:
  Blob call(const BlobWriter& command);
  void send(const BlobWriter& command);
  Blob receive();

  Fd socket_;
  pid_t pid_ = -1;
  ProcessId process_;
  Blob endpoint_;
};

}  // namespace mobula::internal::direct_test
