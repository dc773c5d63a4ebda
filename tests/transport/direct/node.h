// A process for the tests of tensor transports: it offers, pulls and maps as it is told over a socket,
// looks at its own memory, and says what it sees. Its transport runs on a thread of its own, beside a
// main thread that can be kept busy. The test process has no threads, so that it may fork.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "transport/direct/blob.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal::direct_test {

// `carried`, gloo, ucx and nixl come by plug-ins; `carried` by one that the tests bring. cuda_ipc and nccl are of
// simulated GPUs.
enum class Way : std::uint8_t { inproc = 1, shm = 2, tcp = 3, carried = 4, gloo = 5, ucx = 6, nixl = 7, cuda_ipc = 8, nccl = 9 };
inline bool is_plugged(Way way) { return way >= Way::carried && way <= Way::nixl; }
const char* name_of(Way way);
// Of a plug-in, which may not be there.
std::string plugin_of(Way way);

struct NodeOptions {
  Way way = Way::shm;
  std::string folder;     // for sockets
  std::string machine;    // of simulated GPUs; empty: none
  int device = 0;         // of the machine
  std::vector<std::string> reached;  // cuda_ipc: devices of the machine whose memory this one reaches
  bool to_host = false;   // targets lie in host memory, sources on the device
  std::string mask;       // as CUDA_VISIBLE_DEVICES has it, its first device is taken; empty: that device alone
  std::string nccl_host;  // what NCCL takes for this process's host; empty: the machine
  std::uint64_t patience_ms = 10'000;  // nccl
  bool read_processes = true;          // shm
  std::string address = "127.0.0.1";   // where the network is
  bool on_host = false;                // of a LossyNetwork
  bool sealed = true;                  // where there is a choice: does not trust the fabric
  std::uint64_t max_arena = 1ull << 40;
  std::uint64_t max_mapped = 1ull << 40;
  std::uint64_t spare_descriptors = 0;  // beside those of its begin; 0: as many as there are
};

struct RegionSpec {
  std::uint64_t size = 0;
  std::uint64_t seed = 1;
  std::uint64_t offset = 0;  // from an aligned address, on both sides
  bool in_file = true;       // where the holder has a choice
};

struct Seen {
  bool ok = false;
  ErrorCode code{};
  std::string text;
  bool peer_lost = false;
  std::uint64_t bytes = 0;
  bool right = false;     // every byte is the pattern's
  bool guards = false;    // nothing was written beside the targets
  bool poison = false;    // nothing was written in them either
  std::uint64_t sum = 0;  // of the targets, now
  bool encrypted = false;
};

struct NodeFigures {
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
  std::uint64_t resident = 0;
  std::uint64_t offers = 0, pulls = 0, channels = 0, mapped = 0, pulled_bytes = 0, arena_used = 0;
  bool lost = false;  // the process is to be replaced
  bool busy = false;  // its user code
};

// The process as the test sees it. Every call waits for the answer, for at most a minute.
class Node {
 public:
  explicit Node(const NodeOptions& options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  pid_t pid() const { return pid_; }
  ProcessId process() const { return process_; }
  const Blob& endpoint() const { return endpoint_; }
  void kill();  // SIGKILL, reaped
  void signal(int number);

  Result<void> open(const Node& peer, std::uint64_t epoch, std::uint64_t deadline_ms = 20'000);
  Result<void> open(ProcessId peer, const Blob& endpoint, std::uint64_t epoch,
                    std::uint64_t deadline_ms);
  // Two-sided: both open at the same time. opened() waits for the answer to begin_open().
  void begin_open(const Node& peer, std::uint64_t epoch, std::uint64_t deadline_ms = 20'000);
  Result<void> opened();
  void serve(TransferId transfer, const Node& to, std::uint64_t epoch);
  void close(const Node& peer, std::uint64_t epoch);
  Result<Blob> offer(TransferId transfer, const Node& to, std::uint64_t epoch,
                     const std::vector<RegionSpec>& regions, bool copy = false);
  // Then writes other bytes over the regions, and frees them.
  void release(TransferId transfer);
  // Begins; seen() waits for the end.
  void pull(TransferId transfer, const Node& from, std::uint64_t epoch, const Blob& ticket,
            const std::vector<RegionSpec>& regions, std::uint64_t silence_ms = 20'000);
  Seen seen(TransferId transfer);
  // As it is now, without waiting.
  Seen look(TransferId transfer);
  void drop(TransferId transfer);  // the targets' memory
  // Waits for quiet; what the memory held then. The node dies if it is written afterwards, by this
  // or by cancel_after().
  Seen cancel(TransferId transfer);
  // So long after now, on the node's own clock.
  void cancel_after(TransferId transfer, std::uint64_t delay_us);
  Seen map(TransferId transfer, const Node& from, std::uint64_t epoch, const Blob& ticket,
           const std::vector<RegionSpec>& regions);
  bool still_offered(TransferId transfer);
  Result<void> reach(const Node& peer, MemoryKind source = MemoryKind::host);
  Result<void> reach(ProcessId peer, const Blob& endpoint);
  void peer_down(ProcessId peer);
  bool shutdown();  // true when everything was quiet
  // Its transport is destroyed: nothing but figures() is to be asked for after that.
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
