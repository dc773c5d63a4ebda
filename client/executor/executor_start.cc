#include "client/executor/executor_start.h"

#include <poll.h>

#include <cerrno>
#include <cstdio>

#include "base/logging/stderr_queue.h"
#include "client/executor/fork_server.h"
#include "protocol/codec/messages.h"
#include "transport/local/local_frame.h"

namespace mobula::internal::executor {
namespace {

constexpr Duration agent_timeout = 30s;

template <class Message>
Message receive(const Fd& link, Time deadline) {
  auto frame = receive_frame(link, deadline);
  if (!frame) refuse_to_start(frame.error());
  auto message = decode<AgentToProcess>(frame->bytes);
  if (!message) refuse_to_start(message.error());
  auto* expected = std::get_if<Message>(&*message);
  if (expected == nullptr) {
    refuse_to_start(failure(ErrorCode::corrupt, "the agent sent an unexpected message"));
  }
  return std::move(*expected);
}

}  // namespace

[[noreturn]] void refuse_to_start(const Failure& why) {
  print_stderr("mobula: this executor cannot start: {}", why.text);
  leave_executor(1);
}

PrepareExecutor receive_preparation(const Fd& link) {
  return receive<PrepareExecutor>(link, monotonic_now() + agent_timeout);
}

AssignExecutor receive_assignment(const Fd& link) {
  pollfd readable{link.get(), POLLIN, 0};
  while (::poll(&readable, 1, -1) < 0 && errno == EINTR) {
  }
  return receive<AssignExecutor>(link, monotonic_now() + agent_timeout);
}

}  // namespace mobula::internal::executor
