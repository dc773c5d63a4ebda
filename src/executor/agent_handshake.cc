#include "executor/agent_handshake.h"

#include <poll.h>

#include <cerrno>
#include <cstdio>

#include "executor/nursery.h"
#include "protocol/messages.h"
#include "transport/local_frame.h"

namespace mobula::internal::executor {
namespace {

constexpr Duration agent_patience = 30s;

template <class Message>
Message hear(const Fd& link, Time deadline) {
  auto frame = receive_frame(link, deadline);
  if (!frame) refuse_to_start(frame.error());
  auto message = decode<AgentToProcess>(frame->bytes);
  if (!message) refuse_to_start(message.error());
  auto* expected = std::get_if<Message>(&*message);
  if (expected == nullptr) {
    refuse_to_start(failure(ErrorCode::corrupt, "the agent said something else than was expected"));
  }
  return std::move(*expected);
}

}  // namespace

void refuse_to_start(const Failure& why) {
  std::fprintf(stderr, "mobula: this executor cannot start: %s\n", why.text.c_str());
  leave_executor(1);
}

PrepareExecutor receive_prepare(const Fd& link) {
  return hear<PrepareExecutor>(link, monotonic_now() + agent_patience);
}

std::unique_ptr<ProcessSockets> open_sockets(const PrepareExecutor& prepare) {
  SocketOptions options;
  options.keys = {prepare.curve_public_key, prepare.curve_secret_key};
  options.local_bind = prepare.local_endpoint;
  if (!prepare.bind_host.empty()) options.host_bind = prepare.bind_host + ":0";
  auto sockets = ProcessSockets::open(options);
  if (!sockets) refuse_to_start(sockets.error());
  return std::move(*sockets);
}

AssignExecutor wait_for_assignment(const Fd& link) {
  pollfd readable{link.get(), POLLIN, 0};
  while (::poll(&readable, 1, -1) < 0 && errno == EINTR) {
  }
  return hear<AssignExecutor>(link, monotonic_now() + agent_patience);
}

}  // namespace mobula::internal::executor
