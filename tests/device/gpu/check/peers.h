// Processes that work on the GPU for a stage: they receive orders as JSON over a socket, with
// descriptors. The stage itself never uses CUDA, so it may start and end them freely.
// Thread: owner.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "device/gpu/check/stages/stages.h"

namespace mobula::internal::gpu_check {

inline constexpr int peer_fd = 3;  // socket of a peer

struct Message {
  Json json;
  std::vector<Fd> fds{};
};

Result<void> send(const Fd& socket, const Json& json, std::span<const Fd> fds = {});
Result<Message> receive(const Fd& socket, Duration timeout);

class Peer {
 public:
  // `variables` are set in addition to those of this process.
  explicit Peer(const std::map<std::string, std::string>& variables = {});
  Peer(Peer&& other) noexcept;
  Peer& operator=(Peer&&) = delete;
  // Kills the process.
  ~Peer();

  pid_t pid() const { return pid_; }
  // Sends an order and returns the reply; its member "error" is the reason of a failure.
  Message execute(const Json& order, std::span<const Fd> fds = {},
                  Duration timeout = Duration(60s));
  void tell(const Json& order);
  Message answer(Duration timeout);
  void signal(int number) const;
  // Requests an exit and waits for it. Returns false if the process still runs after `limit`.
  bool exits(Duration limit);
  void kill();

 private:
  pid_t pid_ = -1;
  Fd socket_;
};

// A peer with a context. Empty if it gets none; the reason is then recorded with cannot().
std::optional<Peer> opened(Findings& findings,
                           const std::map<std::string, std::string>& variables = {});

// Runs the peer (`--peer`); returns its exit code.
int be_peer();

// Variables that make NCCL treat a peer as a process on the host of that name, with loopback
// sockets only.
std::map<std::string, std::string> as_on_host(const std::string& host);

// Error of a reply; empty if it succeeded.
std::string error_of(const Message& message);

}  // namespace mobula::internal::gpu_check
