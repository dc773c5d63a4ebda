#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "simulated_gpu/nccl_state.h"
#include "simulated_gpu/settings.h"

namespace simulated_gpu {
namespace {

sockaddr_un address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", settings().directory.c_str(),
                name.c_str());
  return address;
}

bool ready(int socket, short events) {
  pollfd entry{socket, events, 0};
  return ::poll(&entry, 1, 2) > 0;
}

// Reads all bytes, unless stopped or the peer closed.
bool read_all(int socket, void* to, std::size_t size, const std::atomic<bool>& stopped) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    if (stopped) return false;
    if (!ready(socket, POLLIN)) continue;
    const ssize_t count = ::recv(socket, at, size, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (count < 0) continue;
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

int connect_to(const std::string& name, const std::atomic<bool>& stopped) {
  const sockaddr_un address = address_of(name);
  while (!stopped) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return -1;
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return socket;
    ::close(socket);
    ::usleep(1000);
  }
  return -1;
}

nccl::Status judge(const std::vector<RankName>& all) {
  // Each rank checks all pairs under its own switch.
  const bool allowed = std::all_of(all.begin(), all.end(), [](const RankName& each) {
    return each.version >= nccl::version(2, 30, 0) && each.several_ranks != 0;
  });
  for (const RankName& a : all) {
    if (a.version != all.front().version || a.ranks != all.front().ranks)
      return nccl::invalid_usage;
    for (const RankName& b : all) {
      const bool shares = a.rank != b.rank && a.host == b.host && a.location == b.location;
      if (shares && !allowed) return nccl::invalid_usage;  // "Duplicate GPU detected"
    }
  }
  return nccl::success;
}

}  // namespace

int listen_at(const std::string& name) {
  const sockaddr_un address = address_of(name);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0 ||
      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket, 64) != 0) {
    if (socket >= 0) ::close(socket);
    return -1;
  }
  return socket;
}

void serve_root(int listener) {
  const std::atomic<bool> never{false};
  std::vector<RankName> all;
  std::vector<int> sockets;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((all.empty() || static_cast<int>(all.size()) < all.front().ranks) &&
         std::chrono::steady_clock::now() < until) {
    if (!ready(listener, POLLIN)) continue;
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    RankName name;
    if (socket < 0 || !read_all(socket, &name, sizeof name, never)) continue;
    all.push_back(name);
    sockets.push_back(socket);
  }
  std::sort(all.begin(), all.end(),
            [](const RankName& a, const RankName& b) { return a.rank < b.rank; });
  const nccl::Status said = judge(all);
  for (const int socket : sockets) {
    (void)::send(socket, &said, sizeof said, MSG_NOSIGNAL);
    if (said == nccl::success)
      (void)::send(socket, all.data(), all.size() * sizeof(RankName), MSG_NOSIGNAL);
    ::close(socket);
  }
  ::close(listener);
}

nccl::Status meet(Communicator& of, const std::string& root) {
  const int socket = connect_to(root, of.stopped);
  if (socket < 0) return nccl::system_error;
  nccl::Status said = nccl::remote_error;
  (void)::send(socket, &of.self, sizeof of.self, MSG_NOSIGNAL);
  of.all.resize(static_cast<std::size_t>(of.self.ranks));
  if (!read_all(socket, &said, sizeof said, of.stopped)) said = nccl::remote_error;
  if (said == nccl::success &&
      !read_all(socket, of.all.data(), of.all.size() * sizeof(RankName), of.stopped)) {
    said = nccl::remote_error;
  }
  ::close(socket);
  return said;
}

bool connect_peers(Communicator& of, const std::vector<Operation>& operations) {
  for (const Operation& each : operations) {
    const auto peer = static_cast<std::size_t>(each.peer);
    if (each.sends && of.to[peer] < 0) {
      of.to[peer] = connect_to(of.all[peer].listens, of.stopped);
      if (of.to[peer] < 0) return false;
      (void)::send(of.to[peer], &of.self.rank, sizeof of.self.rank, MSG_NOSIGNAL);
    }
  }
  for (const Operation& each : operations) {
    while (!each.sends && of.from[static_cast<std::size_t>(each.peer)] < 0) {
      if (of.stopped) return false;
      if (!ready(of.listener, POLLIN)) continue;
      const int socket = ::accept4(of.listener, nullptr, nullptr, SOCK_CLOEXEC);
      int rank = -1;
      if (socket < 0) continue;
      if (!read_all(socket, &rank, sizeof rank, of.stopped)) {
        ::close(socket);
        continue;
      }
      of.from[static_cast<std::size_t>(rank)] = socket;
    }
  }
  return true;
}

namespace {

// An operation in progress; its size is sent first.
struct Moving {
  const Operation* operation;
  int socket;
  std::uint64_t announced = 0;
  std::size_t at = 0;  // position in the announcement, then in the bytes
  bool announces = true;
  bool over = false;
};

// Moves what is possible now; returns false if the peer closed.
bool move_some(Moving& moving) {
  const Operation& operation = *moving.operation;
  std::byte* const bytes = operation.size == 0 ? nullptr : operation.memory.pieces.front().data();
  while (!moving.over) {
    void* const at =
        moving.announces
            ? static_cast<void*>(reinterpret_cast<char*>(&moving.announced) + moving.at)
            : static_cast<void*>(bytes + moving.at);
    const std::size_t left =
        (moving.announces ? sizeof moving.announced : operation.size) - moving.at;
    const std::size_t most = std::min<std::size_t>(left, 256u << 10);
    const ssize_t count = operation.sends
                              ? ::send(moving.socket, at, most, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : ::recv(moving.socket, at, most, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (count <= 0) return false;
    moving.at += static_cast<std::size_t>(count);
    if (static_cast<std::size_t>(count) < left) continue;
    if (!moving.announces) {
      moving.over = true;
    } else {
      if (moving.announced != (operation.size ^ operation.announced_as)) {
        misuse(
            "ncclSend and ncclRecv of different sizes, or ranks that call different collectives");
      }
      moving.announces = false;
      moving.at = 0;
      moving.over = operation.size == 0;
    }
  }
  return true;
}

}  // namespace

bool exchange(Communicator& of, const std::vector<Operation>& operations) {
  std::vector<Moving> all;
  for (const Operation& each : operations) {
    const auto peer = static_cast<std::size_t>(each.peer);
    all.push_back({&each, each.sends ? of.to[peer] : of.from[peer], each.size ^ each.announced_as});
  }
  while (true) {
    if (of.stopped) return false;
    bool over = true;
    std::vector<pollfd> waits;
    for (std::size_t i = 0; i < all.size(); ++i) {
      // Operations with one peer run in order.
      const bool behind = std::any_of(
          all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i),
          [&](const Moving& before) { return !before.over && before.socket == all[i].socket; });
      if (!behind && !move_some(all[i])) return false;
      over = over && all[i].over;
      if (!behind && !all[i].over) {
        waits.push_back(
            {all[i].socket, static_cast<short>(all[i].operation->sends ? POLLOUT : POLLIN), 0});
      }
    }
    if (over) return true;
    ::poll(waits.data(), waits.size(), 2);
  }
}

}  // namespace simulated_gpu
