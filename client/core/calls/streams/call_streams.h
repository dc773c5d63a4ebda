// Call streams of a caller: one per executor that runs its calls. Numbers the calls, resends them
// over new connections, and accepts the end of an executor after its last data.
// Thread: owner (one ClientCore).
// Not: the choice of an executor; tasks, which the rows name; sockets (shell).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/containers/deadline_heap.h"
#include "base/containers/table.h"
#include "client/core/calls/fifo_cache.h"
#include "client/core/calls/streams/stream_row.h"
#include "client/core/client_events.h"
#include "client/core/refs/unclaimed_replies.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

class CallStreams {
 public:
  // Consequences for the calls, the slots, and the actors of this process.
  class Port {
   public:
    // A message of the executor, in order and once.
    virtual void received(ProcessId executor, ExecutorMessage&& message) = 0;
    // The call is not in flight any more.
    virtual void call_left(const StreamRow& stream, TaskId task) = 0;
    // The executor is dead, and its last data was received. Its calls in flight got no reply.
    virtual void concluded(StreamRow& stream) = 0;
    // Replies are due, and no connection has brought a frame for `unreachable_timeout`.
    virtual void unreachable(ProcessId executor) = 0;
    // The pause after a rejected call is over.
    virtual void may_send(ActorId actor) = 0;
    // The homes of all refs in a reply of this executor have confirmed the holds.
    virtual void reply_claimed(const StreamRow& stream) = 0;
    // True if a report of the executor is due, although no call is in flight.
    virtual bool awaits_report(const StreamRow& stream) const = 0;

   protected:
    ~Port() = default;
  };
  using Streams = Table<ProcessId, StreamRow>;

  CallStreams(StepContext& step, Port& port) : step_(step), port_(port) {}

  // Opens the stream unless it is open. A stream that was closed continues with its numbers.
  StreamRow& open(const Endpoint& endpoint);
  // Closes a stream on which nothing is pending, and keeps its numbers.
  void close(ProcessId executor);
  // Closes the stream, if it exists, without a message, because its executor gets no more calls.
  void drop(ProcessId executor);
  // The executor is dead. Port::concluded follows when its last data has arrived.
  void executor_ended(ProcessId executor, EndCause cause);
  // The death of the process was published: no stream to it is opened again.
  void forget_numbers(ProcessId executor) { closed_.forget(executor); }

  // Adds the call to those in flight and returns its number. The caller sends PushCall next.
  std::uint64_t add_call(StreamRow& stream, TaskId task);
  void remove_call(StreamRow& stream, std::uint64_t number);
  void say(StreamRow& stream, CallerMessage message);
  void acknowledge(StreamRow& stream);
  // A deadline of the row may be earlier than before.
  void watch(StreamRow& stream) {
    deadlines_.watch(stream.endpoint.process, stream.deadline(), stream.armed);
  }

  void receive(ReceivedFromExecutor& event);
  void on(const StreamEnded& event);
  void tick();
  // Ends a step: afterwards `next_deadline` is exact.
  void settle() {
    deadlines_.settle([this](ProcessId id) { return streams_.find(id); },
                      [](const StreamRow& stream) { return stream.deadline(); });
  }

  // A reply, or an item, contains refs. The executor keeps its holds on them until those in
  // `missing` are settled. `reply.held`: this process holds at least one of its refs.
  void claim(const UnclaimedReplies::Reply& reply, PooledVector<ObjectId> missing);
  // The home has confirmed the hold, or this process does not need the ref any more.
  void ref_settled(ObjectId object, bool is_held);

  // ---- queries ----------------------------------------------------------------------------------
  StreamRow* find(ProcessId executor) { return streams_.find(executor); }
  const StreamRow* find(ProcessId executor) const { return streams_.find(executor); }
  StreamRow& at(ProcessId executor) { return streams_.at(executor); }
  const StreamRow& at(ProcessId executor) const { return streams_.at(executor); }
  const Streams& all() const { return streams_; }
  // True if replies of this executor contain refs that are not settled.
  bool has_unclaimed(ProcessId executor) const { return unclaimed_.any_of(executor); }
  bool is_quiet(ProcessId executor) const;  // no call, reply, or acknowledgement is pending
  bool empty() const { return streams_.empty() && unclaimed_.empty(); }
  std::optional<Time> next_deadline() const { return deadlines_.earliest(); }
  std::optional<Time> earliest_of_all() const;  // for tests; walks over all rows

 private:
  void conclude(ProcessId executor);
  void send_frames(StreamRow& stream, std::span<CallerFrame> frames);

  StepContext& step_;
  Port& port_;
  Streams streams_;
  DeadlineHeap<ProcessId> deadlines_;
  FifoCache<ProcessId, StreamRow> closed_;  // streams to actors, with numbers to continue
  UnclaimedReplies unclaimed_;
  std::vector<CallerFrame> frames_;  // outgoing frames; member only to reuse its memory
};

}  // namespace mobula::internal::client
