#include "client/init/agent_greeting.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <utility>

#include "client/api/completion/interruption.h"
#include "transport/local/local_frame.h"
#include "transport/local/local_listener.h"

namespace mobula::internal::runtime {
namespace {

constexpr const char* exited =
    "the agent has exited or restarts; run the program again, and see `mobula status` and the "
    "agent's log";

Failure unattached(ErrorCode code, const std::string& path, const std::string& seen,
                   const std::string& remedy) {
  return failure(code, fmt::format("attach to the agent at {}: {}; {}", path, seen, remedy));
}

Failure not_an_agent(const std::string& path, const std::string& seen) {
  return unattached(ErrorCode::corrupt, path, seen,
                    "the listener is another program or another release of Mobula; compare "
                    "`mobula version` with the version of this program");
}

// Waits for input until the deadline. False after an interruption of this thread.
bool wait_for_input(const Fd& socket, Time deadline) {
  while (!detail::interrupted()) {
    const Time now = monotonic_now();
    if (now >= deadline) return true;
    std::array<pollfd, 2> waiting{
        {{socket.get(), POLLIN, 0}, {detail::interrupt_event(), POLLIN, 0}}};
    const auto left = static_cast<int>((deadline - now) / 1ms) + 1;
    const int ready = ::poll(waiting.data(), waiting.size(), left);
    if (ready > 0 && waiting[0].revents != 0) return true;
    if (ready > 0) (void)detail::clear_interrupt_event();
    if (ready < 0 && errno != EINTR) return true;
  }
  return false;
}

// An error of the socket between the request and the reply.
Failure without_reply(const std::string& path, const Failure& error, Duration timeout) {
  if (error.code == ErrorCode::timed_out) {
    return unattached(
        error.code, path,
        fmt::format("the listener accepted the connection and sent no reply within {} s",
                    static_cast<double>(timeout / 1ms) / 1000),
        "the agent hangs or the machine is overloaded; see the agent's log");
  }
  if (error.code == ErrorCode::corrupt) return not_an_agent(path, error.text);
  return unattached(error.code, path, "the connection was closed before the reply", exited);
}

}  // namespace

Result<AgentGreeting> greet_agent(const std::string& path, const AttachDriver& attach,
                                  Duration timeout) {
  auto socket = connect_local(path);
  if (!socket) {
    if (socket.error().code == ErrorCode::permission_denied) return socket.error();
    const bool gone = socket.error().code != ErrorCode::timed_out;
    return unattached(socket.error().code, path, socket.error().text,
                      gone ? exited : "the agent is busy; run the program again");
  }
  const Time deadline = monotonic_now() + timeout;
  const auto sent = send_frame(*socket, encode(ProcessToAgent(attach)), {}, deadline);
  if (!sent) return without_reply(path, sent.error(), timeout);
  if (!wait_for_input(*socket, deadline)) return failure(ErrorCode::cancelled, "init");
  auto frame = receive_frame(*socket, deadline);
  if (!frame) return without_reply(path, frame.error(), timeout);
  auto message = decode<AgentToProcess>(frame->bytes);
  if (!message) return not_an_agent(path, message.error().text);
  if (const auto* refused = std::get_if<AttachRefused>(&*message))
    return failure(refused->code, "the agent refused this driver: " + refused->why);
  auto* attached = std::get_if<DriverAttached>(&*message);
  if (attached == nullptr) return not_an_agent(path, "the reply is another message");
  return AgentGreeting{std::move(*socket), std::move(*attached)};
}

}  // namespace mobula::internal::runtime
