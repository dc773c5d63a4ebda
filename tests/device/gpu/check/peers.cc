#include "device/gpu/check/peers.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "transport/local/local_frame.h"

extern "C" char** environ;

namespace mobula::internal::gpu_check {
namespace {

Message failed(const std::string& why) { return {{{"error", why}}, {}}; }

}  // namespace

Result<void> send(const Fd& socket, const Json& json, std::span<const Fd> fds) {
  const std::string text = json.dump();
  return send_frame(socket, std::as_bytes(std::span(text)), fds, monotonic_now() + Duration(30s));
}

Result<Message> receive(const Fd& socket, Duration timeout) {
  auto frame = receive_frame(socket, monotonic_now() + timeout);
  if (!frame) return frame.error();
  const auto* const text = reinterpret_cast<const char*>(frame->bytes.data());
  auto json = Json::parse(text, text + frame->bytes.size(), nullptr, false);
  if (!json.is_object())
    return failure(ErrorCode::corrupt, "read message of a peer: the bytes are not JSON");
  return Message{std::move(json), std::move(frame->fds)};
}

std::map<std::string, std::string> as_on_host(const std::string& host) {
  return {{"NCCL_HOSTID", host},    {"NCCL_NET", "Socket"},          {"NCCL_SOCKET_IFNAME", "=lo"},
          {"NCCL_IB_DISABLE", "1"}, {"NCCL_MNNVL_ENABLE", "0"},      {"NCCL_NVLS_ENABLE", "0"},
          {"NCCL_RAS_ENABLE", "0"}, {"NCCL_CUMEM_HOST_ENABLE", "0"}, {"NCCL_MAX_CTAS", "1"},
          {"NCCL_DEBUG", "WARN"}};
}

std::string error_of(const Message& message) { return message.json.value("error", std::string()); }

std::optional<Peer> opened(Findings& findings,
                           const std::map<std::string, std::string>& variables) {
  Peer peer(variables);
  const Message answer = peer.execute({{"do", "open"}}, {}, Duration(30s));
  if (const auto error = error_of(answer); !error.empty()) {
    findings.cannot("no context: " + error);
    return std::nullopt;
  }
  return peer;
}

Peer::Peer(const std::map<std::string, std::string>& variables) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  socket_ = Fd(ends[0]);
  const Fd other(ends[1]);
  std::vector<std::string> all;
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string variable = *each;
    if (!variables.contains(variable.substr(0, variable.find('=')))) all.push_back(variable);
  }
  std::vector<char*> envp;
  for (auto& each : all) envp.push_back(each.data());
  envp.push_back(nullptr);
  std::string program = "/proc/self/exe", word = "--peer";
  char* const argv[] = {program.data(), word.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // Needed even if the descriptor already has this number, because it clears close-on-exec.
  ::posix_spawn_file_actions_adddup2(&actions, other.get(), peer_fd);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  if (::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, envp.data()) != 0) pid_ = -1;
  ::posix_spawn_file_actions_destroy(&actions);
}

Peer::Peer(Peer&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_)) {}

Peer::~Peer() { kill(); }

void Peer::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

bool Peer::exits(Duration limit) {
  tell({{"do", "exit"}});
  for (const Time until = monotonic_now() + limit; pid_ > 0; ::usleep(1'000)) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return true;
    }
    if (monotonic_now() > until) return false;
  }
  return true;
}

void Peer::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void Peer::tell(const Json& order) { (void)send(socket_, order); }

Message Peer::answer(Duration timeout) {
  auto message = receive(socket_, timeout);
  return message ? std::move(*message) : failed(message.error().text);
}

Message Peer::execute(const Json& order, std::span<const Fd> fds, Duration timeout) {
  if (pid_ <= 0) return failed("the peer does not run");
  if (const auto sent = send(socket_, order, fds); !sent) return failed(sent.error().text);
  return answer(timeout);
}

}  // namespace mobula::internal::gpu_check
