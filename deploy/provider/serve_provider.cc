#include "deploy/provider/serve_provider.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace mobula::internal::provider {
namespace {

using fleet::FailureKind;
using fleet::ProviderReply;
using fleet::ProviderRequest;

Result<std::string> read_input() {
  std::string text;
  std::array<char, 65536> buffer{};
  while (text.size() <= fleet::max_provider_bytes) {
    const auto count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count == 0) return text;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_failure("read the request from standard input", errno);
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return failure(ErrorCode::invalid_argument,
                 fmt::format("read the request: it has more than {} bytes", text.size()));
}

Result<ProviderRequest> read_request(const std::string& call) {
  const auto text = read_input();
  if (!text) return text.error();
  auto request = fleet::parse_provider_request(*text);
  if (request && !call.empty() && call != fleet::to_string(request->call)) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("read the request: its call is {}, and the command line names {}",
                               fleet::to_string(request->call), call));
  }
  return request;
}

}  // namespace

fleet::ProviderFailure failure_of(const Failure& why) {
  auto kind = FailureKind::transient;
  if (why.code == ErrorCode::invalid_argument || why.code == ErrorCode::not_found)
    kind = FailureKind::invalid;
  if (why.code == ErrorCode::permission_denied) kind = FailureKind::auth;
  if (why.code == ErrorCode::resource_exhausted) kind = FailureKind::capacity;
  return {.kind = kind, .text = fleet::plain_text(why.text), .retry_after = {}};
}

ProviderReply failed_reply(const ProviderRequest& request, FailureKind kind, std::string text) {
  ProviderReply reply{.call = request.call};
  reply.error = fleet::ProviderFailure{
      .kind = kind, .text = fleet::plain_text(std::move(text)), .retry_after = {}};
  return reply;
}

int serve_provider(const Provider& provider, const std::string& call) {
  const auto request = read_request(call);
  const auto reply =
      request ? provider(*request) : failed_reply({}, FailureKind::invalid, request.error().text);
  const auto text = fleet::text_of(reply) + "\n";
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? 0 : 1;
}

}  // namespace mobula::internal::provider
