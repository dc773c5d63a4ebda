// Reads the requests of a console, one JSON object per line, on its own thread: an interruption of
// the console thus reaches a request that blocks.
// Thread: owner, which carries out the requests. Limits: `longest_request` bytes per line,
// `max_requests` that are read ahead.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace mobula::internal::runtime::console {

// A line with this text ends the requests before it. It has no reply.
inline constexpr const char* interruption_line = R"({"do":"interrupt"})";

class RequestReader {
 public:
  struct Request {
    std::string line;
    bool interrupted = false;  // an interruption arrived before it began
  };

  // Borrows the socket.
  explicit RequestReader(int socket);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Waits for the next request. Empty at the end of the input. Interruptions that arrive later end
  // the waits of the request that the caller carries out.
  std::optional<Request> next();

 private:
  void run();
  std::optional<std::string> read_line();

  static constexpr std::size_t longest_request = std::size_t{4} << 20;
  static constexpr std::size_t max_requests = 64;

  const int socket_;
  std::string text_;          // read, not split yet; used by the thread
  std::size_t searched_ = 0;  // count of leading bytes without a line end; used by the thread
  Mutex mutex_;
  CondVar changed_;
  std::deque<Request> requests_ MOBULA_GUARDED_BY(mutex_);
  bool ended_ MOBULA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mobula::internal::runtime::console
