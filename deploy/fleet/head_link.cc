#include "deploy/fleet/head_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "protocol/codec/messages.h"

namespace mobula::internal::fleet {
namespace {

constexpr Duration retry_backoff = 1s;
constexpr Duration connect_timeout = 10s;

}  // namespace

HeadLink::HeadLink(EventLoop& loop, Find find, std::function<void()> connected,
                   std::function<void(const std::string&)> lost)
    : loop_(loop),
      find_(std::move(find)),
      on_connected_(std::move(connected)),
      on_lost_(std::move(lost)),
      retry_(loop,
             [this] {
               if (!connected_) open();
             }),
      deadlines_(loop, [this] { check_deadlines(); }) {}

HeadLink::~HeadLink() = default;

void HeadLink::open() {
  close();
  if (auto begun = connect(); !begun) return lose(begun.error().text);
  if (!connected_) retry_.arm(monotonic_now() + connect_timeout);
}

Result<void> HeadLink::connect() {
  auto found = find_();
  if (!found) return found.error();
  head_ = std::move(found).value();
  BusOptions options;
  if (head_->key) {
    options.keys = CurveKeys{head_->key->public_key, head_->key->secret_key};
    options.allow = &nobody_;
  }
  BusCallbacks callbacks;
  callbacks.on_message = [this](PeerHandle, const PeerOrigin&, std::span<const std::byte> bytes) {
    receive(bytes);
  };
  callbacks.on_connected = [this](PeerHandle) {
    connected_ = true;
    on_connected_();
  };
  callbacks.on_gone = [this](PeerHandle, const Failure& why) { lose(why.text); };
  callbacks.on_unreached = [this](PeerHandle, ProbeOutcome seen) {
    if (seen == ProbeOutcome::refused) lose("connection refused");
  };
  auto bus = Bus::create(loop_, std::move(options), std::move(callbacks));
  if (!bus) return bus.error();
  bus_ = std::move(bus).value();
  const auto where = Address::parse(head_->address);
  if (!where) return where.error();
  if (where->numeric()) return connect_to(head_->address);
  resolver_ = std::make_unique<NameResolver>(loop_, NamePatience::brief);
  return resolver_->resolve(*where, [this](const Result<SocketAddress>& found_address) {
    if (!found_address) return lose(found_address.error().text);
    if (auto begun = connect_to(found_address->text()); !begun) lose(begun.error().text);
  });
}

Result<void> HeadLink::connect_to(const std::string& address) {
  auto peer = bus_->connect(address, head_->key ? head_->key->head_curve_key : "");
  if (!peer) return peer.error();
  peer_ = *peer;
  return {};
}

void HeadLink::query(const std::string& verb, const std::string& kind, const std::string& argument,
                     Duration timeout, Reply reply) {
  ToolRequest request;
  request.request = ++last_query_;
  request.verb = verb;
  request.kind = kind;
  request.argument = argument;
  Query query{verb, monotonic_now() + timeout, std::move(reply)};
  Result<void> sent = failure(ErrorCode::unavailable, verb + ": the head is not connected");
  if (connected_) sent = bus_->send(peer_, encode(request));
  if (!sent) query.deadline = monotonic_now();  // the timer reports it
  queries_.emplace(request.request, std::move(query));
  arm();
}

void HeadLink::receive(std::span<const std::byte> bytes) {
  auto message = decode<ToolReply>(bytes);
  if (!message) return;
  const auto at = queries_.find(message->request);
  if (at == queries_.end()) return;
  const auto reply = std::move(at->second.reply);
  queries_.erase(at);
  reply(message->ok ? Result<std::string>(message->json)
                    : Result<std::string>(failure(message->code, message->text)));
}

// The bus may be in one of its callbacks, so it is closed later.
void HeadLink::lose(const std::string& why) {
  connected_ = false;
  retry_.arm(monotonic_now() + retry_backoff);
  auto lost = std::exchange(queries_, {});
  for (auto& [number, query] : lost) {
    query.reply(failure(ErrorCode::unavailable, query.verb + ": the head is lost: " + why));
  }
  on_lost_(why);
}

void HeadLink::close() {
  connected_ = false;
  resolver_.reset();
  bus_.reset();
  peer_ = {};
}

void HeadLink::check_deadlines() {
  const Time now = monotonic_now();
  std::vector<Query> late;
  for (auto at = queries_.begin(); at != queries_.end();) {
    if (at->second.deadline > now) {
      ++at;
      continue;
    }
    late.push_back(std::move(at->second));
    at = queries_.erase(at);
  }
  arm();
  for (auto& query : late) {
    const bool down = !connected_;
    query.reply(failure(down ? ErrorCode::unavailable : ErrorCode::timed_out,
                        query.verb + (down ? ": the head is not connected" : ": no reply")));
  }
}

void HeadLink::arm() {
  std::optional<Time> next;
  for (const auto& [number, query] : queries_) {
    next = next ? std::min(*next, query.deadline) : query.deadline;
  }
  if (next) {
    deadlines_.arm(*next);
  } else {
    deadlines_.disarm();
  }
}

}  // namespace mobula::internal::fleet
