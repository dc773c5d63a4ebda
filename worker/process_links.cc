#include "worker/process_links.h"

#include <pwd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/logging/log.h"
#include "protocol/codec/messages.h"
#include "worker/exit_status.h"

namespace mobula::internal::worker {
namespace {

// Beyond this size, log lines for a slow driver are dropped; other messages are still queued.
constexpr std::size_t max_bytes_before_lines = 4u << 20;
// Delay in which the loop reads frames that a process sent before its exit.
constexpr Duration exit_settle_delay = 20ms;
// The socket of a process that exits is closed shortly before its exit status is known.
constexpr Duration exit_status_timeout = 2s;

std::string name_of(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16 * 1024);
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return std::to_string(uid);
}

}  // namespace

Result<void> ProcessLinks::listen(const std::string& path) {
  auto listener =
      LocalListener::open(loop_, path, [this](Fd socket) { accept(std::move(socket)); });
  if (!listener) return listener.error();
  listener_ = std::move(*listener);
  return {};
}

void ProcessLinks::accept(Fd socket) {
  const auto peer = credentials_of(socket);
  if (!peer || (peer->uid != ::geteuid() && peer->uid != 0)) {
    log_debug("a connection of user {} was rejected", peer ? name_of(peer->uid) : "unknown");
    return;
  }
  const auto link = adopt(std::move(socket));
  if (!link) {
    log_warn("a connection of process {} was not taken: {}", peer->pid, link.error().text);
    return;
  }
  watch_exit(*link, peer->pid);
  callbacks_.connected(*link, name_of(peer->uid), peer->pid);
}

// Without a pidfd (a process of another namespace), the end of file of the socket reports the exit.
void ProcessLinks::watch_exit(LinkId link, pid_t process) {
  if (process <= 0) return;
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0U)));
  if (!pidfd) return;
  auto watch = loop_.watch(pidfd.get(), Interest::read, [this, link](Readiness) { exited(link); });
  if (!watch)
    return log_warn("the exit of process {} is not watched: {}", process, watch.error().text);
  Exit& exit = exits_[link];
  exit.process = process;
  exit.pidfd = std::move(pidfd);
  exit.watch = std::move(*watch);
}

void ProcessLinks::exited(LinkId link) {
  const auto at = exits_.find(link);
  if (at == exits_.end()) return;
  at->second.watch.reset();
  at->second.status = exit_status_of(at->second.process, at->second.pidfd.get());
  if (at->second.closed) {
    at->second.settled->arm(monotonic_now());
    return;
  }
  at->second.settled = std::make_unique<Timer>(loop_, [this, link] { close(link); });
  at->second.settled->arm(monotonic_now() + exit_settle_delay);
}

Result<LinkId> ProcessLinks::adopt(Fd socket) {
  const LinkId id = ++last_;
  LocalLink::Callbacks callbacks;
  callbacks.on_frame = [this, id](const LocalFrame& frame) { take(id, frame); };
  callbacks.on_closed = [this, id](const Failure& why) {
    if (why.code == ErrorCode::corrupt) log_debug("a local link was closed: {}", why.text);
    links_.erase(id);
    link_closed(id);
  };
  auto link = LocalLink::open(loop_, std::move(socket), std::move(callbacks));
  if (!link) return link.error();
  links_.emplace(id, std::move(*link));
  return id;
}

void ProcessLinks::take(LinkId link, const LocalFrame& frame) {
  auto message = decode<ProcessToAgent>(frame.bytes);
  if (message) {
    return callbacks_.on_message(link, std::move(*message));
  }
  log_debug("a local message was dropped: {}", message.error().text);
}

void ProcessLinks::send(LinkId link, const AgentToProcess& message, std::vector<Fd> fds) {
  const auto at = links_.find(link);
  if (at == links_.end()) return;
  if (const auto* lines = std::get_if<LogLines>(&message)) {
    if (at->second->queued_bytes() > max_bytes_before_lines) {
      dropped_lines_[link] += lines->lines.size();
      return;
    }
    if (const auto dropped = dropped_lines_.extract(link)) {
      const auto text = fmt::format("{} lines were dropped: this process reads its messages slowly",
                                    dropped.mapped());
      (void)at->second->send(encode(AgentToProcess(LogLines{"agent", {text}})));
    }
  }
  const auto sent = at->second->send(encode(message), std::move(fds));
  if (sent || sent.error().code == ErrorCode::unavailable) return;  // the link reports its own end
  log_warn("a local process is cut off: {}", sent.error().text);
  close(link);
}

void ProcessLinks::close(LinkId link) {
  if (links_.erase(link) != 0) report_loss(link);
}

// The process closed the link itself. If it exits, the kernel closes its sockets before it makes
// the exit status known.
void ProcessLinks::link_closed(LinkId link) {
  const auto at = exits_.find(link);
  if (at == exits_.end() || !at->second.watch) return report_loss(link);
  at->second.closed = true;
  at->second.settled = std::make_unique<Timer>(loop_, [this, link] { report_loss(link); });
  at->second.settled->arm(monotonic_now() + exit_status_timeout);
}

void ProcessLinks::report_loss(LinkId link) {
  dropped_lines_.erase(link);
  std::optional<EndCause> status;
  if (const auto at = exits_.find(link); at != exits_.end()) {
    status = std::move(at->second.status);
    exits_.erase(at);
  }
  callbacks_.lost(link, std::move(status));
}

}  // namespace mobula::internal::worker
