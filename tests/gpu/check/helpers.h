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

inline constexpr int helper_fd = 3;  // its socket, in a helper

struct Message {
  Json json;
  std::vector<Fd> fds{};
};

Result<void> send(const Fd& socket, const Json& json, std::span<const Fd> fds = {});
Result<Message> receive(const Fd& socket, Duration within);

class Helper {
 public:
  // `variables` come on top of this process's.
  explicit Helper(const std::map<std::string, std::string>& variables = {});
  Helper(Helper&& other) noexcept;
  Helper& operator=(Helper&&) = delete;
  // Kills it.
  ~Helper();

  pid_t pid() const { return pid_; }
  // What it answers to an order; "error" in it says why it could not.
  Message ask(const Json& order, std::span<const Fd> fds = {}, Duration within = Duration(60s));
  void tell(const Json& order);
  Message answer(Duration within);
  void signal(int number) const;
  void kill();

 private:
  pid_t pid_ = -1;
  Fd socket_;
};

// What a helper does: `--helper`. The exit code.
int be_helper();

// Nothing, or why an answer is none.
std::string error_of(const Message& message);

}  // namespace mobula::internal::gpu_check
