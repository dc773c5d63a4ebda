#include "client/engine/ring_links.h"

#include <functional>
#include <utility>

#include "base/check.h"
#include "mobula/detail/stages.h"
#include "protocol/codec/msgpack_stream.h"

namespace mobula::internal::client {

Result<void> RingLinks::use_doorbell(std::vector<Fd> fds) {
  if (fds.size() != 2) return failure(ErrorCode::corrupt, "a doorbell without its descriptors");
  auto doorbell = Doorbell::open({std::move(fds[0]), std::move(fds[1])});
  if (!doorbell) return doorbell.error();
  doorbell_ = std::make_shared<Doorbell>(std::move(*doorbell));
  return {};
}

Result<void> RingLinks::open(const OpenRingReply& opened, std::vector<Fd> fds) {
  if (fds.size() != 3 || !doorbell_ || opened.index >= max_rings ||
      opened.peer_index >= max_rings) {
    return failure(ErrorCode::corrupt, "a ring without its descriptors");
  }
  auto memory = SharedMemory::map(fds[0].get(), 2 * ring_memory_bytes);
  if (!memory) return memory.error();
  auto peer = DoorbellRinger::open({std::move(fds[1]), std::move(fds[2])});
  if (!peer) return peer.error();
  std::byte* const calls = memory->data();
  std::byte* const replies = calls + ring_memory_bytes;
  auto link = std::make_shared<Link>(
      Link{opened,
           std::move(*memory),
           RingWriter(opened.calls ? calls : replies),
           RingReader(opened.calls ? replies : calls, DecodeLimits().max_bytes),
           std::move(*peer),
           {},
           0,
           0,
           true});
  (opened.calls ? out_ : in_)[opened.peer] = link;
  by_index_[opened.index] = std::move(link);
  // The peer may have opened its end first, and rung for an index that was still unused.
  doorbell_->ring(opened.index);
  return {};
}

std::vector<OpenRingReply> RingLinks::collect(const Hearer& hearer) {
  std::vector<OpenRingReply> broken;
  if (!doorbell_) return broken;
  const auto poll = [&](std::size_t index) {
    const auto at = by_index_.find(static_cast<std::uint32_t>(index));
    if (at == by_index_.end()) return;  // it was closed
    const auto link = at->second;
    if (read(*link, hearer)) return;
    broken.push_back(link->opened);
    forget(*link);
  };
  doorbell_->collect(std::ref(poll));
  return broken;
}

std::vector<OpenRingReply> RingLinks::collect_all(const Hearer& hearer) {
  std::vector<OpenRingReply> broken;
  const auto links = by_index_;
  for (const auto& [index, link] : links) {
    if (!by_index_.contains(index) || read(*link, hearer)) continue;
    broken.push_back(link->opened);
    forget(*link);
  }
  return broken;
}

bool RingLinks::read(Link& link, const Hearer& hearer) {
  if (!link.waiting.empty()) send_waiting(link);
  const bool intact = link.opened.calls
                          ? read_replies(link, hearer)
                          : !hearer.read_calls || hearer.read_calls(link.opened.peer, link.reader);
  if (!intact) return false;
  if (link.reader.take_hunger()) link.peer.ring(link.opened.peer_index);
  return !link.writer.broken();
}

bool RingLinks::read_replies(Link& link, const Hearer& hearer) {
  for (;;) {
    // A hearer may call this function again.
    std::vector<std::byte> record = std::exchange(record_, {});
    const auto found = link.reader.read(record);
    if (!found) return false;
    if (!*found) {
      record_ = std::move(record);
      return true;
    }
    link.used = true;
    hearer.on_executor_message(link.opened.peer, record);
    record_ = std::move(record);
  }
}

void RingLinks::send(std::vector<Command>& commands) {
  if (out_.empty()) return;
  for (auto& command : commands) {
    if (std::holds_alternative<CloseStream>(command)) return;
    auto* call = std::get_if<SendToExecutor>(&command);
    if (call == nullptr) continue;
    const auto at = out_.find(call->executor);
    if (at == out_.end()) continue;
    const Bytes& bytes = encode_frame_(call->frame);
    detail::stages().pass(detail::Stage::written);
    const bool sent = write(at->second, bytes);
    detail::stages().pass(detail::Stage::sent);
    if (sent) call->executor = {};
  }
}

bool RingLinks::call(ProcessId executor, std::span<const std::byte> frame) {
  return send(out_, executor, frame);
}

bool RingLinks::reply(ProcessId caller, std::span<const std::byte> frame) {
  return send(in_, caller, frame);
}

bool RingLinks::send(const LinkByProcess& links, ProcessId peer, std::span<const std::byte> frame) {
  const auto at = links.find(peer);
  return at != links.end() && write(at->second, frame);
}

bool RingLinks::write(const std::shared_ptr<Link>& to, std::span<const std::byte> frame) {
  Link& link = *to;
  link.used = true;
  const std::size_t written = link.waiting.empty() ? link.writer.write(frame) : 0;
  if (written < frame.size()) {
    // dropped
    if (link.waiting_bytes + frame.size() > max_waiting_bytes && written == 0) return true;
    if (link.waiting.empty()) link.first_written = written;
    link.waiting.emplace_back(frame.begin(), frame.end());
    link.waiting_bytes += frame.size();
    send_waiting(link);
    link.peer.ring(link.opened.peer_index);  // the peer is behind, and space is free after it reads
  } else {
    ring_deferred(to);
  }
  return !link.writer.broken();
}

void RingLinks::ring_deferred(const std::shared_ptr<Link>& link) {
  if (!link->peer.ring_deferred(link->opened.peer_index) || link->peer_naps) return;
  link->peer_naps = true;
  coalescing_.push_back(link);
}

void RingLinks::flush_deferred_wakes() {
  for (const auto& link : coalescing_) {
    link->peer_naps = false;
    link->peer.wake_up();
  }
  coalescing_.clear();
}

// Writes until the ring is full. A full ring makes its reader ring back.
void RingLinks::send_waiting(Link& link) {
  bool wrote = false;
  while (!link.waiting.empty()) {
    const auto& frame = link.waiting.front();
    const std::size_t before = link.first_written;
    link.first_written = link.writer.write(frame, before);
    wrote = wrote || link.first_written != before;
    if (link.first_written < frame.size()) {
      if (link.writer.broken() || !link.writer.request_space()) break;
      continue;
    }
    link.waiting_bytes -= frame.size();
    link.waiting.pop_front();
    link.first_written = 0;
  }
  if (wrote) link.peer.ring(link.opened.peer_index);
}

void RingLinks::forget(const Link& link) {
  const OpenRingReply opened = link.opened;
  auto& links = opened.calls ? out_ : in_;
  const auto at = links.find(opened.peer);
  if (at != links.end() && at->second->opened.ring == opened.ring) links.erase(at);
  const auto known = by_index_.find(opened.index);
  if (known != by_index_.end() && known->second->opened.ring == opened.ring) by_index_.erase(known);
  std::erase_if(coalescing_,
                [&](const auto& waiting) { return waiting->opened.ring == opened.ring; });
}

std::vector<ProcessId> RingLinks::take_unused() {
  std::vector<ProcessId> unused;
  for (const auto& [executor, link] : out_) {
    if (!std::exchange(link->used, false) && link->waiting.empty()) unused.push_back(executor);
  }
  return unused;
}

std::optional<OpenRingReply> RingLinks::close(std::uint64_t ring) {
  for (const auto& [index, link] : by_index_) {
    if (link->opened.ring != ring) continue;
    const auto kept = link;
    forget(*kept);
    return kept->opened;
  }
  return std::nullopt;
}

std::optional<OpenRingReply> RingLinks::close_calls_to(ProcessId executor) {
  const auto at = out_.find(executor);
  if (at == out_.end()) return std::nullopt;
  const auto kept = at->second;
  forget(*kept);
  return kept->opened;
}

void RingLinks::close_all() {
  flush_deferred_wakes();
  out_.clear();
  in_.clear();
  by_index_.clear();
}

}  // namespace mobula::internal::client
