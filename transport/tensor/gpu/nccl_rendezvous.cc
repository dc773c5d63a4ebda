#include "transport/tensor/gpu/nccl_rendezvous.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/net/address.h"
#include "transport/net/tcp.h"

namespace mobula::internal {
namespace {

constexpr std::size_t question_bytes = 16 + 16 + 16 + 8;
constexpr std::size_t max_lines = 1'024;
constexpr std::size_t max_ids = 4'096;
constexpr Duration reply_timeout = 30s;
constexpr Duration rendezvous_check_interval = 50ms;

}  // namespace

Result<std::unique_ptr<NcclRendezvous>> NcclRendezvous::listen(EventLoop& loop, ProcessId self,
                                                               const std::string& address) {
  std::unique_ptr<NcclRendezvous> made(new NcclRendezvous(loop, self));
  auto listener = listen_at(address);
  if (!listener) return listener.error();
  made->listener_ = std::move(listener).value();
  const auto bound = local_address_of(made->listener_.get());
  if (!bound) return bound.error();
  made->address_ = bound->text();
  auto watch = loop.watch(made->listener_.get(), Interest::read,
                          [raw = made.get()](Readiness) { raw->accept(); });
  if (!watch) return watch.error();
  made->listening_ = std::move(watch).value();
  return made;
}

void NcclRendezvous::accept() {
  for (;;) {
    auto socket = accept_from(listener_);
    if (!socket || !*socket) return;
    if (lines_.size() >= max_lines) continue;  // closed at once: the requester retries
    const std::uint64_t number = next_++;
    Line& line = lines_[number];
    line.socket = std::move(socket).value();
    line.deadline = monotonic_now() + reply_timeout;
    watch(number, Interest::read);
  }
}

void NcclRendezvous::watch(std::uint64_t number, Interest interest) {
  Line& line = lines_.at(number);
  auto made =
      loop_.watch(line.socket.get(), interest, [this, number](Readiness) { on_ready(number); });
  if (!made) return end(number, made.error());
  line.watch = std::move(made).value();
  if (!timer_.armed()) timer_.arm(monotonic_now() + rendezvous_check_interval);
}

void NcclRendezvous::give(const ChannelKey& to, const nccl_abi::UniqueId& id) {
  if (ids_.size() >= max_ids) ids_.erase(ids_.begin());
  ids_[to] = id;
  std::vector<std::uint64_t> waiting;
  for (auto& [number, line] : lines_) {
    if (line.waits && line.channel == to) waiting.push_back(number);
  }
  for (const std::uint64_t number : waiting) {
    answer(lines_.at(number));
    on_ready(number);
  }
}

void NcclRendezvous::take_back(const ChannelKey& to) { ids_.erase(to); }

void NcclRendezvous::request(const ChannelKey& channel, const std::string& address,
                             const DirectToken& token, Time deadline, Got got) {
  const std::uint64_t number = next_++;
  Line& line = lines_[number];
  line.channel = channel;
  line.deadline = deadline;
  line.got = std::move(got);
  const auto parsed = Address::parse(address);
  const auto numeric = parsed ? parsed->numeric() : std::nullopt;
  if (!numeric) {
    return end(number, failure(ErrorCode::invalid_argument,
                               fmt::format("nccl: {} is not an address of a process", address)));
  }
  auto socket = begin_connect(*numeric);
  if (!socket) return end(number, socket.error());
  line.socket = std::move(socket).value();
  line.connected = false;
  BlobWriter question;
  question.token(token).id(self_).id(channel.peer).number(channel.epoch);
  line.out = question.take();
  watch(number, Interest::read_write);
}

void NcclRendezvous::on_ready(std::uint64_t number) {
  const auto at = lines_.find(number);
  if (at == lines_.end()) return;
  const auto more = talk(at->second);
  if (!more) return end(number, more.error());
  if (*more) return;
  if (at->second.got) {
    nccl_abi::UniqueId id{};
    std::memcpy(&id, at->second.in.data(), sizeof id);
    const auto got = std::move(at->second.got);
    lines_.erase(at);
    return got(id);
  }
  lines_.erase(at);
}

// Returns true if more bytes must be sent or received.
Result<bool> NcclRendezvous::talk(Line& line) {
  const auto gone = failure(ErrorCode::unavailable,
                            "nccl: the other process has exited or rejects the "
                            "rendezvous");
  if (!line.connected) {
    if (connect_error(line.socket) != 0) return gone;
    line.connected = true;
  }
  while (!line.out.empty()) {
    const ssize_t count =
        ::send(line.socket.get(), line.out.data(), line.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (count <= 0) return gone;
    line.out.erase(line.out.begin(), line.out.begin() + count);
    if (line.out.empty() && !line.got) return false;  // the reply is complete
  }
  line.watch.set_interest(Interest::read);
  const std::size_t wanted = line.got ? sizeof(nccl_abi::UniqueId) : question_bytes;
  for (;;) {
    std::byte bytes[256];
    const ssize_t count =
        ::recv(line.socket.get(), bytes, std::min(sizeof bytes, wanted), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (count <= 0 || line.waits) return gone;
    line.in.insert(line.in.end(), bytes, bytes + count);
    if (line.in.size() > wanted) return gone;
    if (line.in.size() < wanted) continue;
    if (line.got) return false;
    return read_question(line);
  }
}

Result<bool> NcclRendezvous::read_question(Line& line) {
  BlobReader from(line.in);
  const DirectToken token = from.token();
  line.channel.peer = from.id<ProcessId>();
  const auto to = from.id<ProcessId>();
  line.channel.epoch = from.number();
  if (!token.matches(token_) || to != self_) {
    return failure(ErrorCode::permission_denied, "a question that is not for this process");
  }
  line.waits = true;
  if (!ids_.contains(line.channel)) return true;
  answer(line);
  return talk(line);
}

void NcclRendezvous::answer(Line& line) {
  const auto id = std::as_bytes(std::span(&ids_.at(line.channel), 1));
  line.out.assign(id.begin(), id.end());
  line.waits = false;
  line.watch.set_interest(Interest::read_write);
}

void NcclRendezvous::end(std::uint64_t number, const Failure& why) {
  auto node = lines_.extract(number);
  if (!node.empty() && node.mapped().got) node.mapped().got(why);
}

void NcclRendezvous::check() {
  const Time now = monotonic_now();
  std::vector<std::uint64_t> late;
  for (const auto& [number, line] : lines_) {
    if (now > line.deadline) late.push_back(number);
  }
  for (const std::uint64_t number : late) {
    end(number, failure(ErrorCode::timed_out, "nccl: the other process did not come to meet"));
  }
  if (!lines_.empty()) timer_.arm(now + rendezvous_check_interval);
}

}  // namespace mobula::internal
