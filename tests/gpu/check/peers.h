// Processes that a stage lets do something on the GPU, told what by JSON over a socket, with descriptors. The stage
// itself never uses CUDA, so it may start and end them as it likes.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "gpu/check/stages.h"

namespace mobula::internal::gpu_check {

inline constexpr int peer_fd = 3;  // its socket, in a peer

struct Message {
  Json json;
  std::vector<Fd> fds{};
};

Result<void> send(const Fd& socket, const Json& json, std::span<const Fd> fds = {});
Result<Message> receive(const Fd& socket, Duration within);

class Peer {
 public:
  // `variables` come on top of this process's.
  explicit Peer(const std::map<std::string, std::string>& variables = {});
  Peer(Peer&& other) noexcept;
  Peer& operator=(Peer&&) = delete;
  // Kills it.
  ~Peer();

  pid_t pid() const { return pid_; }
  // What it answers to an order; "error" in it says why it could not.
  Message ask(const Json& order, std::span<const Fd> fds = {}, Duration within = Duration(60s));
  void tell(const Json& order);
  Message answer(Duration within);
  void signal(int number) const;
  // Asks it to exit and waits for that. False if it still runs after `limit`.
  bool exits(Duration limit);
  void kill();

 private:
  pid_t pid_ = -1;
  Fd socket_;
};

// A peer with a context. Nothing if it gets none; the reason is then recorded with cannot().
std::optional<Peer> opened(Findings& findings, const std::map<std::string, std::string>& variables = {});

// What a peer does: `--peer`. The exit code.
int be_peer();

// Variables of a peer that NCCL takes for one on a host of that name, with nothing but sockets of the loopback.
std::map<std::string, std::string> as_on_host(const std::string& host);

// Nothing, or why an answer is none.
std::string error_of(const Message& message);

}  // namespace mobula::internal::gpu_check
