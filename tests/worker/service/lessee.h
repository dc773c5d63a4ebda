// A driver of a test: takes the rings that an agent offers when the test asks for it, calls
// executors over them, and records each reply.
// Thread: owner (the test). Errors: failed expectations of the test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/engine/ring_links.h"
#include "protocol/codec/messages.h"
#include "protocol/messages/call_stream.h"
#include "protocol/session/session.h"
#include "transport/bus/curve.h"
#include "transport/local/local_link.h"
#include "transport/local/local_listener.h"

namespace mobula::internal::worker {

class Lessee {
 public:
  using RingLinks = client::RingLinks;

  Lessee(EventLoop& loop, const std::string& path, JobId job)
      : process_(ProcessId::random()), job_(job) {
    LocalLink::Callbacks callbacks;
    callbacks.on_frame = [this](LocalFrame frame) { received(std::move(frame)); };
    callbacks.on_closed = [this](const Failure&) { closed_ = true; };
    link_ = LocalLink::open(loop, connect_local(path).value(), std::move(callbacks)).value();
    AttachDriver message;
    message.process = process_;
    message.job = job_;
    message.curve_key = CurveKeys::generate().value().public_key;
    message.pid = ::getpid();
    say(message);
  }

  void say(const ProcessToAgent& message) { (void)link_->send(encode(message)); }
  bool attached() const { return attached_; }
  bool closed() const { return closed_; }
  ProcessId process() const { return process_; }
  NodeId node() const { return node_; }
  // The last executor of the slot, if it is not `executor`.
  std::optional<SlotReady> ready_after(SlotId slot, ProcessId executor) const {
    const auto at = ready_.find(slot);
    if (at == ready_.end() || at->second.endpoint.process == executor) return std::nullopt;
    return at->second;
  }
  bool is_offered(ProcessId executor) const { return offers_.contains(executor); }
  bool has_ring_to(ProcessId executor) const { return rings_.calls(executor); }
  bool has_received_end(std::uint64_t ring) const { return ended_.contains(ring); }

  std::uint64_t take_ring(ProcessId executor) {
    auto offer = offers_.extract(executor);
    auto& [opened, fds] = offer.mapped();
    EXPECT_TRUE(rings_.open(opened, std::move(fds)));
    return opened.ring;
  }

  void close_ring(ProcessId executor, std::uint64_t ring) {
    EXPECT_TRUE(rings_.close_calls_to(executor));
    say(RingClosed{ring});
  }

  std::uint64_t call(ProcessId executor, FunctionKey function) {
    CallForm form;
    form.job = job_;
    form.function = function;
    form.name = "lease test";
    PushCall push;
    push.number = ++streams_[executor].last;
    push.call.task = child_id(TaskId::of(executor.bits().low), push.number);
    push.call.form = std::move(form);
    push.call.caller_node = node_;
    const std::uint64_t number = push.number;
    send(executor, std::move(push));
    return number;
  }
  void take_back(ProcessId executor) { send(executor, ReturnCallsRequest{}); }

  // Reads and acknowledges pending messages of the rings.
  void read_rings() {
    RingLinks::Hearer hearer;
    hearer.on_executor_message = [this](ProcessId executor, std::span<const std::byte> bytes) {
      Stream& stream = streams_[executor];
      std::vector<CallerFrame> frames;
      auto message =
          stream.session.receive(monotonic_now(), decode<ExecutorFrame>(bytes).value(), frames);
      frames.push_back(stream.session.acknowledgement());
      for (const auto& frame : frames) (void)rings_.call(executor, encode(frame));
      if (!message) return;
      if (auto* reply = std::get_if<CallReply>(&*message))
        stream.replies.push_back(std::move(*reply));
      if (auto* back = std::get_if<CallReturned>(&*message))
        stream.handed_back.insert(back->number);
    };
    EXPECT_TRUE(rings_.collect_all(hearer).empty()) << "a ring is broken";
  }

  // Replies of the executor to this call.
  std::vector<CallReply> replies(ProcessId executor, std::uint64_t number) const {
    std::vector<CallReply> found;
    const auto stream = streams_.find(executor);
    if (stream == streams_.end()) return found;
    for (const auto& reply : stream->second.replies) {
      if (reply.number == number) found.push_back(reply);
    }
    return found;
  }
  bool handed_back(ProcessId executor, std::uint64_t number) const {
    const auto stream = streams_.find(executor);
    return stream != streams_.end() && stream->second.handed_back.contains(number);
  }

 private:
  struct Stream {
    Session<CallerMessage, ExecutorMessage> session;
    std::uint64_t last = 0;
    std::vector<CallReply> replies;
    std::set<std::uint64_t> handed_back;
  };

  void received(LocalFrame frame) {
    auto message = decode<AgentToProcess>(frame.bytes).value();
    if (const auto* attached = std::get_if<DriverAttached>(&message)) {
      attached_ = true;
      node_ = attached->node;
    }
    if (std::holds_alternative<UseDoorbell>(message)) {
      frame.fds.resize(2);
      ASSERT_TRUE(rings_.use_doorbell(std::move(frame.fds)));
    }
    if (auto* opened = std::get_if<OpenRingReply>(&message); opened && opened->ring != 0) {
      offers_.insert_or_assign(opened->peer, std::pair(*opened, std::move(frame.fds)));
    }
    if (const auto* ended = std::get_if<RingEnded>(&message)) {
      read_rings();
      ended_.insert(ended->ring);
      std::erase_if(offers_,
                    [&](const auto& each) { return each.second.first.ring == ended->ring; });
      (void)rings_.close(ended->ring);
      say(RingClosed{ended->ring});
    }
    const auto* head = std::get_if<FromHead>(&message);
    const auto* ready = head == nullptr ? nullptr : std::get_if<SlotReady>(&head->message);
    if (ready != nullptr) ready_.insert_or_assign(ready->slot, *ready);
  }

  void send(ProcessId executor, CallerMessage message) {
    std::vector<CallerFrame> frames;
    streams_[executor].session.send(monotonic_now(), std::move(message), frames);
    for (const auto& frame : frames) EXPECT_TRUE(rings_.call(executor, encode(frame)));
  }

  const ProcessId process_;
  const JobId job_;
  std::unique_ptr<LocalLink> link_;
  bool attached_ = false;
  bool closed_ = false;
  std::map<SlotId, SlotReady> ready_;
  NodeId node_;
  std::map<ProcessId, std::pair<OpenRingReply, std::vector<Fd>>> offers_;
  std::set<std::uint64_t> ended_;
  RingLinks rings_;
  std::map<ProcessId, Stream> streams_;
};

}  // namespace mobula::internal::worker
