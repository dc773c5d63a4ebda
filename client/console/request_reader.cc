#include "client/console/request_reader.h"

#include <mobula/interrupt.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace mobula::internal::runtime::console {

RequestReader::RequestReader(int socket) : socket_(socket) {
  thread_ = std::thread([this] { run(); });
}

RequestReader::~RequestReader() {
  {
    const MutexLock held(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  (void)::shutdown(socket_, SHUT_RD);
  thread_.join();
}

std::optional<RequestReader::Request> RequestReader::next() {
  MutexLock held(mutex_);
  while (requests_.empty() && !ended_) changed_.wait(held);
  if (requests_.empty()) return std::nullopt;
  Request request = std::move(requests_.front());
  requests_.pop_front();
  changed_.notify_all();
  (void)take_interrupt();  // it belonged to earlier requests
  return request;
}

void RequestReader::run() {
  while (auto line = read_line()) {
    MutexLock held(mutex_);
    if (*line == interruption_line) {
      for (auto& each : requests_) each.interrupted = true;
      interrupt_waits();
      continue;
    }
    while (requests_.size() >= max_requests && !ended_) changed_.wait(held);
    requests_.push_back({std::move(*line), false});
    changed_.notify_all();
  }
  const MutexLock held(mutex_);
  ended_ = true;
  interrupt_waits();  // no request needs a reply
  changed_.notify_all();
}

// Empty at the end of the input, and for a line above the limit.
std::optional<std::string> RequestReader::read_line() {
  for (;;) {
    const auto end = text_.find('\n', searched_);
    if (end != std::string::npos) {
      std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      searched_ = 0;
      return line;
    }
    searched_ = text_.size();
    if (text_.size() > longest_request) return std::nullopt;
    std::array<char, 65536> part;
    const ssize_t count = ::recv(socket_, part.data(), part.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    text_.append(part.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace mobula::internal::runtime::console
