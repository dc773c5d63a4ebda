// Building blocks of the transport plugins in this directory: a function table that calls the
// members of a mobula_carrier, and the queue through which the plugin's threads report to the
// host's thread.
// Thread: see each class. Errors: exceptions, which the table returns as reasons.
#pragma once

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "mobula/transport_plugin.h"

namespace mobula::plugins {

using internal::CondVar;
using internal::Mutex;
using internal::MutexLock;
using Secret = std::array<char, 16>;
using Bytes = std::vector<char>;

// Owns a file descriptor.
class Handle {
 public:
  explicit Handle(int fd = -1) : fd_(fd) {}
  Handle(Handle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Handle() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// UCX terminates the process if it finds no descriptor for a connection.
inline bool descriptors_are_left() {
  std::array<int, 16> tried{};
  for (int& each : tried) each = ::eventfd(0, EFD_CLOEXEC);
  for (const int each : tried) {
    if (each >= 0) ::close(each);
  }
  return tried.back() >= 0;
}

inline Secret random_secret() {
  Secret made{};
  if (::getrandom(made.data(), made.size(), 0) != static_cast<ssize_t>(made.size())) {
    throw std::runtime_error("the system gives no random bytes");
  }
  return made;
}

inline Bytes joined(const mobula_carrier_bytes* parts, std::size_t count) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < count; ++i) size += parts[i].size;
  Bytes message;
  message.reserve(size);
  for (std::size_t i = 0; i < count; ++i) {
    const char* const from = static_cast<const char*>(parts[i].bytes);
    message.insert(message.end(), from, from + parts[i].size);
  }
  return message;
}

// Reports from plugin threads to the host's thread.
struct News {
  enum class What { message, broken, dropped };
  std::uint64_t link = 0;
  What what = What::message;
  Bytes bytes;  // a message, or a reason
};

// Queue shared by the host's thread and the threads of links. It may outlive the carrier. Thread:
// any.
class Inbox {
 public:
  Inbox() : ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (ready_.get() < 0) throw std::runtime_error("no descriptors are left");
  }
  int descriptor() const { return ready_.get(); }
  void put(News news) {
    const MutexLock lock(mutex_);
    news_.push_back(std::move(news));
    ring();
  }
  void ring() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(ready_.get(), &one, sizeof one);
  }
  std::size_t size() {
    const MutexLock lock(mutex_);
    return news_.size();
  }
  std::deque<News> take() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto drained = ::read(ready_.get(), &count, sizeof count);
    const MutexLock lock(mutex_);
    return std::exchange(news_, {});
  }

 private:
  Handle ready_;
  Mutex mutex_;
  std::deque<News> news_ MOBULA_GUARDED_BY(mutex_);
};

// Builds the table for a complete type mobula_carrier with a constructor (host, address),
// descriptor(), poll(), endpoint(), connect(), send(), and drop(). The text of an exception from
// create() or connect() is the reason that the host receives.
template <class Carrier = mobula_carrier>
constexpr mobula_transport_plugin table_of(const char* name, std::uint64_t max_message) {
  return {
      .version = MOBULA_TRANSPORT_PLUGIN_VERSION,
      .size = sizeof(mobula_transport_plugin),
      .name = name,
      .max_message_bytes = max_message,
      .create = [](const mobula_carrier_host* host, const char* listen, char* why,
                   std::size_t why_size) -> mobula_carrier* {
        try {
          return new Carrier(*host, listen);
        } catch (const std::exception& thrown) {
          std::snprintf(why, why_size, "%s", thrown.what());
          return nullptr;
        }
      },
      .destroy = [](mobula_carrier* carrier) { delete static_cast<Carrier*>(carrier); },
      .descriptor =
          [](mobula_carrier* carrier) { return static_cast<Carrier*>(carrier)->descriptor(); },
      .poll =
          [](mobula_carrier* carrier) {
            static_cast<Carrier*>(carrier)->poll();
            return 0;
          },
      .endpoint =
          [](mobula_carrier* carrier, void* to, std::size_t capacity) {
            const std::string endpoint = static_cast<Carrier*>(carrier)->endpoint();
            std::memcpy(to, endpoint.data(), std::min(capacity, endpoint.size()));
            return endpoint.size();
          },
      .connect = [](mobula_carrier* carrier, const void* endpoint, std::size_t size, char* why,
                    std::size_t why_size) -> std::uint64_t {
        try {
          return static_cast<Carrier*>(carrier)->connect(
              std::string(static_cast<const char*>(endpoint), size));
        } catch (const std::exception& thrown) {
          std::snprintf(why, why_size, "%s", thrown.what());
          return 0;
        }
      },
      .send =
          [](mobula_carrier* carrier, std::uint64_t link, const mobula_carrier_bytes* parts,
             std::size_t count) {
            return static_cast<Carrier*>(carrier)->send(link, parts, count) ? 0 : 1;
          },
      .drop = [](mobula_carrier* carrier,
                 std::uint64_t link) { static_cast<Carrier*>(carrier)->drop(link); },
  };
}

}  // namespace mobula::plugins
