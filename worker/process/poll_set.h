// Many descriptors and one deadline behind a single pollable descriptor. Owners have serial numbers
// that are never reused, so that an event of a closed descriptor finds no owner.
// Thread: owner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::worker {

class PollSet {
 public:
  enum class Source : std::uint8_t { deadline, fork_server_socket, exit, output, control };
  struct Ready {
    std::uint64_t owner = 0;
    Source source = Source::deadline;
  };

  static Result<PollSet> create();

  int fd() const { return epoll_.get(); }
  // Reports the descriptor as ready while it is readable or hung up (level-triggered).
  Result<void> add(int fd, std::uint64_t owner, Source source);
  void remove(int fd);
  // Becomes ready at `when`; empty: never.
  void set_deadline(std::optional<Time> when);
  // The sources that are ready now; does not block.
  std::vector<Ready> take_ready();

 private:
  PollSet(Fd epoll, Fd timer) : epoll_(std::move(epoll)), timer_(std::move(timer)) {}
  Fd epoll_;
  Fd timer_;
};

}  // namespace mobula::internal::worker
