// Many fds and one deadline behind a single pollable fd. Owners are named by serial numbers that
// are never given twice, so an event of something closed meanwhile finds nobody. One thread.
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
  enum class Source : std::uint8_t { deadline, nursery_socket, exit, output, control };
  struct Ready {
    std::uint64_t owner = 0;
    Source source = Source::deadline;
  };

  static Result<PollSet> create();

  int fd() const { return epoll_.get(); }
  // Readable or hung up counts as ready, for as long as it lasts.
  Result<void> add(int fd, std::uint64_t owner, Source source);
  void remove(int fd);
  // Becomes ready at `when`; nothing: never.
  void set_deadline(std::optional<Time> when);
  // What is ready now; does not wait.
  std::vector<Ready> take_ready();

 private:
  PollSet(Fd epoll, Fd timer) : epoll_(std::move(epoll)), timer_(std::move(timer)) {}
  Fd epoll_;
  Fd timer_;
};

}  // namespace mobula::internal::worker
